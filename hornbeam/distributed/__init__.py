"""Training in a group of processes, each of which has a part of the rows."""
