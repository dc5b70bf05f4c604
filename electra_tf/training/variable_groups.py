"""Groups of variables by layer, for logged values and for joint updates by the optimizer."""

# Prefixes of logged values; the name of a group follows.
GRADIENT_NORM, UPDATE_RATIO = "gradient_norm/", "update_ratio/"


def group_of(path: str) -> str:
    """Returns the group of a variable: an encoder's layer, its embeddings, or a head.

    Examples: electra/layer_3, generator/embeddings, discriminator_predictions.
    """
    first, _, rest = path.partition("/")
    layer = rest.partition("/")[0]
    if layer.startswith("layer_"):
        return f"{first}/{layer}"
    return f"{first}/embeddings" if layer.startswith("embeddings") else first
