"""Every network against eager PyTorch: same weights in, same samples; outputs, loss, all gradients and running statistics
equal, in fp64 to 1e-10 and in fp32 within its rounding; then outputs in evaluation, with those statistics. And what backward keeps, counted in PyTorch, against what we compute.

    numerics_test.py NETWORK_DUMP, in a Python that has torch
"""
import collections
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import unittest

import numpy as np
# As ours is told (nn/multiplier.cpp): other ways of MKL round otherwise, and batch norm makes much of it.
os.environ.setdefault("MKL_CBWR", "AUTO")
# Threads that have nothing to do sleep: other tests run beside.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
import torch
import torch.nn.functional as F

import reference_networks

DUMP = sys.argv[1]
TYPES = {"fp32": np.float32, "fp64": np.float64, "int64": np.int64}

Shape = collections.namedtuple("Shape", "objective channels height width classes source target")
Shape.pixels = property(lambda shape: shape.channels * shape.height * shape.width)


def images(channels, side, classes=10):
    return Shape("classification", channels, side, side, classes, 0, 0)


CIFAR, MNIST = images(3, 32), images(1, 28)
SENTENCES, TEXT = Shape("translation", 0, 0, 0, 60, 9, 8), Shape("language", 0, 0, 0, 60, 0, 13)
CAPTIONS = Shape("captioning", 3, 32, 32, 60, 0, 9)

# Network, samples, batch. Every network once, both stems of those that have two, both auxiliary heads of Inception V3, and sides that a
# stride does not divide.
CASES = [
    ("mlp", MNIST, 4), ("mlp[hidden=32,layers=4]", CIFAR, 4), ("lenet", MNIST, 4), ("lenet", CIFAR, 4), ("smallcnn", CIFAR, 4), ("smallcnn", MNIST, 4),
    ("resnet18", CIFAR, 4), ("resnet18", images(3, 75), 2), ("resnet34", CIFAR, 4), ("resnet50", MNIST, 4), ("resnet50", images(3, 96), 2),
    ("resnet101", CIFAR, 2), ("resnet152", CIFAR, 2), ("resnet50v2", CIFAR, 4), ("resnet50v2", images(3, 96), 2), ("resnet101v2", CIFAR, 2),
    ("vgg11[dropout=0]", CIFAR, 4), ("vgg11[dropout=0]", MNIST, 4), ("vgg16[dropout=0]", CIFAR, 4), ("vgg11[dropout=0]", images(3, 64), 2),
    ("mobilenetv2[dropout=0]", CIFAR, 4), ("mobilenetv2[dropout=0]", images(3, 97), 2), ("alexnet[dropout=0]", CIFAR, 4),
    ("alexnet[dropout=0]", images(3, 100), 2), ("inceptionv3[dropout=0]", images(3, 75), 4),
    ("inceptionv3[dropout=0]", images(3, 299), 2),
    ("transformer[hidden=48,heads=6,layers=2,dropout=0]", SENTENCES, 3), ("transformer[dropout=0]", SENTENCES, 3),
    ("transformer-big[layers=1,dropout=0]", SENTENCES, 3), ("gpt[hidden=64,layers=3,heads=4,dropout=0]", TEXT, 3),
    ("gpt[hidden=32,layers=1,heads=1,seq=20,vocab=64,dropout=0]", TEXT, 3), ("captioner[depth=50,hidden=64,encoder=trained,dropout=0]", CAPTIONS, 3),
    ("captioner[hidden=32,dropout=0]", CAPTIONS, 3),
]


def once(*without):
    """The first case of each network but those: their layers are in others, and they take long."""
    cases = {}
    for case in CASES:
        cases.setdefault(re.match(r"[\w-]+", case[0])[0], case)
    return [case for name, case in cases.items() if name not in without]


# Largest difference, relative to the largest element. In fp64 both sides round at 1e-16, and a step through a hundred layers
# grows that by some thousands. In fp32 with plain ATen the same kernels run in the same order on both sides (ours take wide convolutions
# channels-last, so PyTorch is told to). With other kernels, as batch norm and some convolutions have by default, two right answers of a deep network may be percents apart:
# rounding lifts a value over ReLU's corner, the gradient changes as a step, and batch norm over few samples passes it on. Who is right then is told by fp64.
TOLERANCE = {"fp64": 1e-10, "fp32": 1e-5}
# Against fp64: logits, which no step moves, at most so many times as far off as PyTorch's; of gradients the median tensor and the worst no further than so many times PyTorch's, or than such steps may take them.
TIMES, STEPS, STEPS_OF_ONE = 2, 0.05, 0.2
# What no tensor here stays below but those that are zero in truth; vgg11's smallest gradient is 1.2e-5.
ZERO = 1e-5

# Eager PyTorch keeps input and output of ReLU6; the output alone is enough.
PYTORCH_KEEPS_MORE = {"mobilenetv2": 0.69}


# PyTorch's own start of parameters takes seconds where there are tens of millions: all of them are given (repeat() sees to that).
for start in ("uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"):
    setattr(torch.nn.init, start, lambda tensor, *_, **__: tensor)


def read(path):
    tensors = {}
    with open(path, "rb") as file:
        while line := file.readline():
            name, kind, *sizes = line.decode().split()
            count = int(np.prod([int(size) for size in sizes]))
            values = np.frombuffer(file.read(count * np.dtype(TYPES[kind]).itemsize), dtype=TYPES[kind])
            tensors[name] = torch.from_numpy(values.copy()).reshape([int(size) for size in sizes])
    return tensors


def part(tensors, prefix):
    return {name[len(prefix):]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def loss_of(output, labels, shape):
    padding = -100 if shape.objective == "classification" else 0
    loss = F.cross_entropy(output["logits"].flatten(0, -2), labels.flatten(), ignore_index=padding)
    return loss + 0.3 * F.cross_entropy(output["auxiliary"], labels) if "auxiliary" in output else loss


class Kept:
    """Bytes that autograd keeps, each piece of memory once, parameters left out."""

    def __init__(self, module):
        self.parameters = {tensor.untyped_storage().data_ptr() for tensor in module.state_dict().values()}
        self.pieces = {}
        self.held = []

    def pack(self, tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.parameters:
            self.pieces[storage.data_ptr()] = storage.nbytes()
            self.held.append(storage)
        return tensor


def repeat(spec, shape, dumped, kernels):
    """The same step in PyTorch: what the dump has, under the same names, and bytes kept."""
    name, options = re.fullmatch(r"([^\[]+)(?:\[(.*)\])?", spec).groups()
    options = dict(item.split("=") for item in options.split(",")) if options else {}
    module = reference_networks.build(name, shape, options).to(dumped["logits"].dtype)
    module.load_state_dict(part(dumped, "parameter."), strict=False)
    names = {key for key, _ in module.named_parameters()}
    assert names == set(part(dumped, "parameter.")), names ^ set(part(dumped, "parameter."))
    module.train()
    given = part(dumped, "given.")
    if kernels == "fast" and any(tensor.dim() == 4 and tensor.shape[0] >= 32 for tensor in module.parameters()):
        for parameter in module.parameters():
            if parameter.dim() == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        given["images"] = given["images"].contiguous(memory_format=torch.channels_last)
    kept = Kept(module)
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda tensor: tensor):
        output = module(given)
        bytes_kept = sum(kept.pieces.values())
        loss = loss_of(output, given["labels"], shape)
    loss.backward()
    result = {"loss": loss.detach(), **{key: tensor.detach() for key, tensor in output.items()}}
    result.update({f"gradient.{key}": tensor.grad for key, tensor in module.named_parameters() if tensor.requires_grad})
    for key, layer in module.named_modules():
        if isinstance(layer, torch.nn.BatchNorm2d) and layer.weight.requires_grad:
            result.update({f"statistic.{key}.running_mean": layer.running_mean, f"statistic.{key}.running_var": layer.running_var})
    # With gradients, so that attention takes the same way as in training.
    module.eval()
    result["evaluated"] = module(given)["logits"].detach()
    return result, bytes_kept


def results(tensors):
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(("given.", "parameter.", "kept"))}


def differences(ours, theirs):
    """By name, the largest difference relative to the largest element of what PyTorch has. A gradient that is zero in truth (of
    a bias before batch norm, as 17 of MobileNetV2's are, or softmax) is rounding of terms that cancel, which MKL's products do
    otherwise where memory lies otherwise: it is held against the median of all tensors, as those terms are."""
    ours = results(ours)
    assert ours.keys() == theirs.keys(), f"on one side only: {sorted(ours.keys() ^ theirs.keys())}"
    size = {name: theirs[name].abs().max().item() for name in ours}
    typical = statistics.median(size.values())
    return {name: (tensor - theirs[name]).abs().max().item() / (size[name] if size[name] >= ZERO else typical) for name, tensor in ours.items()}


def off(found, exact):
    """By name, the distance relative to the length of what is exact; without what is zero in truth."""
    return {name: ((tensor.double() - exact[name]).norm() / exact[name].norm()).item() for name, tensor in results(found).items() if exact[name].abs().max() >= ZERO}


def gradients(distances):
    return {name: distance for name, distance in distances.items() if name.startswith("gradient.")}


def dump(spec, shape, batch, kind, kernels):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([DUMP, spec, ",".join(map(str, shape)), str(batch), kind, kernels, file.name], check=True)
        return read(file.name)


def say(*words):
    print(*words, flush=True)


class Numerics(unittest.TestCase):
    def compare(self, ours, theirs, kind):
        """The name of what differs most, and by how much. NaN is further away than any number."""
        found = differences(ours, theirs)
        worst = max(found, key=lambda name: found[name] if math.isfinite(found[name]) else math.inf)
        self.assertLess(found[worst], TOLERANCE[kind], worst)
        return worst, found[worst]

    def judge(self, spec, shape, ours, theirs):
        """Both against the same step in fp64."""
        exact, _ = repeat(spec, shape, {name: tensor.double() if tensor.dtype == torch.float32 else tensor for name, tensor in ours.items()}, "fast")
        own, other = off(ours, exact), off(theirs, exact)
        say(f"{spec}, {shape.channels}x{shape.height}: logits {own['logits']:.1e} from fp64's, PyTorch's {other['logits']:.1e}; gradients, median, "
            f"{statistics.median(gradients(own).values()):.1e} and {statistics.median(gradients(other).values()):.1e}")
        self.assertLess(own["logits"], TIMES * other["logits"])
        self.assertLess(own["evaluated"], TIMES * max(other["evaluated"], TOLERANCE["fp32"]))
        self.assertLess(statistics.median(gradients(own).values()), max(TIMES * statistics.median(gradients(other).values()), STEPS))
        worst = max(gradients(own), key=own.get)
        self.assertLess(own[worst], max(TIMES * max(gradients(other).values()), STEPS_OF_ONE), worst)

    def hold(self, spec, shape, batch, kind, kernels):
        """Every element of every tensor; and what we say that backward keeps, as part of what it does."""
        ours = dump(spec, shape, batch, kind, kernels)
        theirs, kept = repeat(spec, shape, ours, kernels)
        found = differences(ours, theirs)
        if (kind, kernels) == ("fp32", "fast") and max(found.values()) >= TOLERANCE[kind] and all(map(math.isfinite, found.values())):
            self.judge(spec, shape, ours, theirs)
            worst, difference = max(found.items(), key=lambda item: item[1])
        else:
            worst, difference = self.compare(ours, theirs, kind)
        part_kept = ours["kept_elements"].item() * batch * ours["logits"].element_size() / kept
        say(f"{spec}, {shape.channels}x{shape.height}, {kind} {kernels}: at most {difference:.1e} apart ({worst}), keeps {part_kept:.3f} of PyTorch's")
        return part_kept

    def test_fp64_differs_by_rounding_alone(self):
        for spec, shape, batch in once("resnet34", "resnet101", "resnet152", "resnet101v2", "vgg16", "transformer-big"):
            with self.subTest(network=spec, shape=shape):
                self.hold(spec, shape, batch, "fp64", "fast")

    def test_fp32_and_what_backward_keeps(self):
        for spec, shape, batch in CASES:
            with self.subTest(network=spec, shape=shape):
                kept = self.hold(spec, shape, batch, "fp32", "fast")
                self.assertAlmostEqual(kept, PYTORCH_KEEPS_MORE.get(spec.split("[")[0], 1), delta=0.05)

    def test_fp32_with_plain_aten(self):
        for spec, shape, batch in once("resnet34", "resnet101", "resnet152", "resnet101v2", "vgg16", "transformer-big"):
            with self.subTest(network=spec, shape=shape):
                self.hold(spec, shape, batch, "fp32", "torch")

    def test_it_can_fail(self):
        ours = dump("lenet", MNIST, 4, "fp64", "fast")
        theirs, _ = repeat("lenet", MNIST, ours, "fast")
        self.compare(ours, theirs, "fp64")
        for name in ("loss", "logits", "evaluated", "gradient.conv1.weight", "gradient.fc3.bias"):
            kept = ours[name].clone()
            for wrong in (1e-6, math.nan):
                ours[name].view(-1)[0] += wrong
                with self.assertRaises(AssertionError, msg=f"{name} is off by {wrong}"):
                    self.compare(ours, theirs, "fp64")
                ours[name].copy_(kept)
            del ours[name]
            with self.assertRaisesRegex(AssertionError, "on one side only", msg=name):
                self.compare(ours, theirs, "fp64")
            ours[name] = kept
        single = {name: tensor.float() if tensor.dtype == torch.float64 else tensor for name, tensor in ours.items()}
        theirs, _ = repeat("lenet", MNIST, single, "fast")
        self.judge("lenet", MNIST, single, theirs)
        for name in ("logits", "evaluated", "gradient.conv1.weight", "gradient.fc3.bias"):
            kept = single[name].clone()
            single[name].mul_(1.3)
            with self.assertRaises(AssertionError, msg=name):
                self.judge("lenet", MNIST, single, theirs)
            single[name].copy_(kept)


if __name__ == "__main__":
    torch.set_num_threads(2)
    unittest.main(argv=sys.argv[:1])
