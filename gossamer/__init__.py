"""Content-based publish/subscribe that never stalls."""
