"""Classification and regression trees (CART), and forests of them.

The algorithms are those of Breiman et al. 1984 (CART) and Breiman 2001 (random
forests). In boosting, all threads grow one tree together. Here one thread grows one
tree, until its leaves are pure or a stopping rule holds; cost-complexity pruning
follows where it was requested.
"""
