"""Models as chains of layers: parameters, operations and outputs of each layer, without times."""
