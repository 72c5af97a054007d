"""wholedoc: translation that reads the whole document."""

__version__ = "0.1.0.dev0"
