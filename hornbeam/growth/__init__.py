"""Tree growth, depthwise and lossguide; growers see nodes and splits, never rows."""
