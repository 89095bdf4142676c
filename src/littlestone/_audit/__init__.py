"""Check privacy: enumerate laws exactly, and audit whole learners as black boxes."""
