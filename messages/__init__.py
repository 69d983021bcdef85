"""The shared vocabulary: events, ids, packets, the codec. Imports nothing of ours."""
