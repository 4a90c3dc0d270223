"""Maps the applications of other traces to models of the catalogue: the same model if there is one, else the
model for the same kind of data whose gradients are nearest in size, as gradients are what crosses the
network.
"""

from collections.abc import Mapping
from random import Random

from hocket.profiles import PS_PER_S

MODEL_OF: Mapping[str, str] = {
    # Pollux (OSDI'21) Table 1
    "imagenet": "ResNet50",
    "cifar10": "ResNet50",  # ResNet18, 45 MB: the smallest image model in the catalogue
    "yolov3": "WideResNet101",  # Darknet-53, 248 MB against 243
    "bert": "BERT",
    "deepspeech2": "CamemBERT",  # sequences; the smallest of these
    "ncf": "DLRM",  # recommendation by embedding tables
    # Gavel (OSDI'20) Table 2
    "ResNet-50": "ResNet50",
    "ResNet-18": "ResNet50",
    "CycleGAN": "ResNet50",  # images, 113 MB
    "A3C": "ResNet50",  # frames of a game, a few MB
    "Transformer": "CamemBERT",  # translation, 260 MB against 266
    "LM": "CamemBERT",  # an LSTM of text, a few tens of MB
    "Recommendation": "DLRM",
}
"""The model of the catalogue by the application's name in the trace."""

_SMALL, _MEDIUM, _LARGE, _EXTRA_LARGE = (1, 10), (10, 100), (100, 1_000), (1_000, 10_000)

_TENTHS_OF_GPU_HOURS: Mapping[str, tuple[int, int]] = {
    "cifar10": _SMALL,
    "ncf": _SMALL,
    "deepspeech2": _MEDIUM,
    "bert": _MEDIUM,
    "yolov3": _LARGE,
    "imagenet": _EXTRA_LARGE,
}
"""Limits of each application's category by GPU time (Pollux, OSDI'21 §5.1: small up to 1 GPU-hour, medium to
10, large to 100, extra large to 1,000). Hocket: small starts at a tenth of an hour, as 0 has no logarithm.
"""


def gpu_time_ps(application: str, random: Random) -> int | None:
    """The GPU time of a job of Pollux in GPU-picoseconds, log-uniform in its application's category.

    `None` for an application that is not one of Pollux's.
    """
    limits = _TENTHS_OF_GPU_HOURS.get(application)
    if limits is None:
        return None
    smallest, largest = limits
    tenths: float = smallest * (largest / smallest) ** random.random()
    return round(tenths * 360 * PS_PER_S)
