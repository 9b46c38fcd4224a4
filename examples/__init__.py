"""kiln's examples."""
