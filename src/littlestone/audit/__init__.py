"""Checks of privacy: exact enumeration of laws, and black-box audits."""
