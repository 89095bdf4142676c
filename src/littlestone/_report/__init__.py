"""The private report and the figures."""
