"""Pictures of what a model does with data, each in axes of matplotlib."""
