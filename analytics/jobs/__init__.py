"""One file a question: `run(inputs)` makes tables by their names, the job's own among them."""
