"""A detector on a user's own tables, from training to reasons."""
