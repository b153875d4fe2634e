"""The commands of `ares` that talk to a server, one file for each subject."""
