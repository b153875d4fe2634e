"""The command line. Modules here import nothing but click until a command runs: `ares --help` stays quick."""
