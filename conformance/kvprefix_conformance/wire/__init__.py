"""The store contract over stdin and stdout, one JSON object a line: backends in any language, and Python ones kept apart.

codec and messages say what a line means, host serves a Python backend, client drives a process, isolation keeps it under control.
"""
