"""Pure decisions about alerts."""
