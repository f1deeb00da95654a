"""Single trees, grown whole, and forests of them (Breiman et al. 1984, Breiman 2001).

A boosted tree is one small step among many, and all threads grow it together. Here a
tree is a model by itself, or one voice among many that know nothing of one another: it
grows until its leaves are pure, is cut back afterwards if at all, and has a thread of
its own.
"""
