"""The subcommands of ``kvprefix``, one module each: it offers ``command``, a click.Command, and is imported only when called."""
