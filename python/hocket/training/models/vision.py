"""VGG and ResNet as in torchvision, layer by layer, for 224 × 224 images.

Single precision, trained by SGD with momentum, as their papers do. The sizes in memory that NSDI'24 Table 3
prints for VGG and ResNet50 are those of 32-bit weights.
"""

from dataclasses import dataclass, field

from hocket.training.models.model import LayerKind, Model, ModelLayer

# ImageNet's usual crop and classes, with which the parameters published for these models were counted.
_IMAGE = 224
_CHANNELS = 3
_CLASSES = 1000

# SGD with momentum: reads weight, gradient and momentum, writes weight and momentum, 4 bytes each.
_SGD_BYTES = 5 * 4

# Passes of the kernels after a convolution over its output: ReLU reads and writes it once; batch
# normalisation reads it twice, for statistics and to normalise, and writes it once; adding a shortcut reads
# two and writes one.
_RELU = 2
_BATCH_NORM = 3
_SHORTCUT = 3


@dataclass
class _Images:
    """A network under construction, with the shape of the last layer's output."""

    channels: int = _CHANNELS
    side: int = _IMAGE
    layers: list[ModelLayer] = field(default_factory=list)

    @property
    def values(self) -> int:
        return self.channels * self.side**2

    def conv(self, name: str, channels: int, kernel: int, stride: int, passes: int, weights: int) -> None:
        """Adds a convolution, padded so that only its stride shrinks the image; `weights` are its parameters
        besides the kernel: biases, or scale and bias of the batch normalisation.
        """
        products = self.channels * channels * kernel**2
        self.channels, self.side = channels, self.side // stride
        self._add(name, "conv", products + weights, products * self.side**2, passes)

    def pool(self, kernel: int) -> None:
        """Adds max pooling, whose memory traffic is counted for the layer before."""
        # Pooling has neither parameters nor products, so it is part of the layer before it.
        last = self.layers[-1]
        self.side //= kernel
        self.layers[-1] = ModelLayer(
            last.name,
            last.kind,
            last.parameters,
            last.forward_flops,
            self.values,
            last.memory_values + last.output_values + self.values,
        )

    def shortcut(self) -> None:
        """Adds the shortcut of a block to the last layer's output."""
        last = self.layers[-1]
        memory = last.memory_values + _SHORTCUT * self.values
        self.layers[-1] = ModelLayer(
            last.name, last.kind, last.parameters, last.forward_flops, last.output_values, memory
        )

    def dense(self, name: str, outputs: int) -> None:
        products = self.values * outputs
        self.channels, self.side = outputs, 1
        self._add(name, "dense", products + outputs, products, _RELU)

    def _add(self, name: str, kind: LayerKind, parameters: int, multiply_adds: int, passes: int) -> None:
        self.layers.append(
            ModelLayer(name, kind, parameters, 2 * multiply_adds, self.values, passes * self.values)
        )


def _vgg(name: str, convolutions: tuple[int, ...]) -> Model:
    """VGG with groups of `convolutions` of 64, 128, 256, 512 and 512 channels, a pooling after each group."""
    images = _Images()
    for stage, (count, channels) in enumerate(zip(convolutions, (64, 128, 256, 512, 512), strict=True), 1):
        for index in range(1, count + 1):
            images.conv(f"conv{stage}_{index}", channels, 3, 1, _RELU, weights=channels)
        images.pool(2)
    for index, outputs in enumerate((4096, 4096, _CLASSES), 6):
        images.dense(f"fc{index}", outputs)
    source = "Simonyan and Zisserman, ICLR'15, Table 1; torchvision.models.vgg"
    return Model(name, tuple(images.layers), 4, _SGD_BYTES, source)


def _resnet(name: str, blocks: tuple[int, ...], width: int, source: str) -> Model:
    """A ResNet of bottlenecks `width` times as wide inside, with strides at the 3 × 3 as in torchvision."""
    images = _Images()
    images.conv("conv1", 64, 7, 2, _BATCH_NORM + _RELU, weights=2 * 64)
    # 3 × 3 with a stride of 2: the stride gives the size of the output.
    images.pool(2)
    for stage, (count, channels) in enumerate(zip(blocks, (64, 128, 256, 512), strict=True), 2):
        for index in range(1, count + 1):
            # The pooling before conv2 has already halved its input.
            stride = 2 if index == 1 and stage > 2 else 1
            _bottleneck(images, f"conv{stage}_{index}", channels, width, stride, project=index == 1)
    # Average pooling over the whole image.
    images.pool(images.side)
    images.dense("fc", _CLASSES)
    return Model(name, tuple(images.layers), 4, _SGD_BYTES, source)


def _bottleneck(images: _Images, name: str, channels: int, width: int, stride: int, *, project: bool) -> None:
    inner, outer = channels * width, channels * 4
    if project:
        # Shares the list of layers, but not the shape: the bottleneck starts from the same input.
        before = _Images(images.channels, images.side, images.layers)
        before.conv(f"{name} shortcut", outer, 1, stride, _BATCH_NORM, weights=2 * outer)
    normalised = _BATCH_NORM + _RELU
    images.conv(f"{name} reduce", inner, 1, 1, normalised, weights=2 * inner)
    images.conv(f"{name} conv", inner, 3, stride, normalised, weights=2 * inner)
    images.conv(f"{name} expand", outer, 1, 1, normalised, weights=2 * outer)
    images.shortcut()


VGG11 = _vgg("VGG11", (1, 1, 2, 2, 2))
VGG16 = _vgg("VGG16", (2, 2, 3, 3, 3))
VGG19 = _vgg("VGG19", (2, 2, 4, 4, 4))
RESNET50 = _resnet("ResNet50", (3, 4, 6, 3), 1, "He et al., CVPR'16, Table 1; torchvision.models.resnet50")
WIDE_RESNET101 = _resnet(
    "WideResNet101",
    (3, 4, 23, 3),
    2,
    "Zagoruyko and Komodakis, BMVC'16; torchvision.models.wide_resnet101_2",
)
