"""PyTorch DDP as a subject of ddlbench: the same network, data, order and steps, as a careful user would train them.

Started once per rank with RANK and WORLD_SIZE set and one argument, the job folder. It holds job.json (see Job),
the IDX files of the data set, and optionally the order of samples (int64) and the initial weights (fp32), both raw
in the machine's byte order. World size 1 is plain eager PyTorch without DDP.

Standard output is JSON lines, one event each; standard error is for people:

    ready   rank, world, ns                              everything is set up, the first step comes next
    step    step, samples, loss, begin_ns, end_ns, load_ms, forward_ms, backward_ms, update_ms
            Loss is the mean over this rank's own samples, null where it had none or is not finite.
            ns are CLOCK_MONOTONIC.
            Backward holds DDP's all-reduce and the wait for it, which cannot be told apart from outside.
            Lines come in batches, between steps.
    epoch   epoch, step, loss, accuracy, ns              step: how many are done; loss: this rank's mean over the epoch;
                                                         accuracy: of the whole test set, or null
    done    steps, parameters, parameters_digest, peak_memory_bytes, versions
    error   message                                      the last line of a rank that failed
"""

import datetime
import hashlib
import json
import math
import os
import pathlib
import sys
import time
import traceback

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FLUSH_SECONDS = 1.0


class LeNet(nn.Module):
    """LeNet-5 (LeCun et al. 1998) with ReLU and max pooling: 61,706 parameters on 1x28x28 and 10 classes."""

    def __init__(self, channels, height, width, classes):
        super().__init__()
        padding = 2 if height == 28 else 0
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=padding)
        self.conv2 = nn.Conv2d(6, 16, 5)
        sides = [((side + 2 * padding - 4) // 2 - 4) // 2 for side in (height, width)]
        self.fc1 = nn.Linear(16 * sides[0] * sides[1], 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a short cut (He et al. 2016), named and ordered as in torchvision."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet18(nn.Module):
    """torchvision's resnet18 for small images: a 3x3 stem of stride 1 and no max pooling.
    11,173,962 parameters on 3x32x32 and 10 classes."""

    def __init__(self, channels, height, width, classes):
        super().__init__()
        del height, width
        self.conv1 = nn.Conv2d(channels, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(BasicBlock(64, 64, 1), BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512, 1))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


MODELS = {"lenet": LeNet, "resnet18": ResNet18}


def read_idx(path):
    """Unsigned bytes of any rank, raw; ddlbench checked the file when it wrote it."""
    with open(path, "rb") as file:
        rank = file.read(4)[3]
        dims = np.frombuffer(file.read(4 * rank), dtype=">u4").astype(int)
        return np.fromfile(file, dtype=np.uint8).reshape(dims)


class Images:
    """One part of the data set. Bytes are kept; a batch is normalised when it is taken, as ddlbench does."""

    def __init__(self, folder, stem, description):
        channels, height, width = description["shape"]
        images = read_idx(f"{folder}/{stem}-images-idx3-ubyte")
        self.images = torch.from_numpy(images).reshape(-1, channels, height, width)
        self.labels = torch.from_numpy(read_idx(f"{folder}/{stem}-labels-idx1-ubyte")).long()
        self.mean = torch.tensor(description["mean"], dtype=torch.float32).view(1, channels, 1, 1)
        self.std = torch.tensor(description["std"], dtype=torch.float32).view(1, channels, 1, 1)

    def __len__(self):
        return len(self.labels)

    def take(self, indices):
        images = self.images[indices].float().div_(255).sub_(self.mean).div_(self.std)
        return images, self.labels[indices]


class Job:
    """job.json with its files: model, batch (global), steps (0: whole epochs), epochs, learning_rate, momentum,
    weight_decay, learning_rate_schedule, evaluate, threads, seed, shuffle, timeout_s,
    dataset {folder, mean, std, shape, classes}, order and weights (file names beside job.json, or null)."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for key, value in json.loads((self.folder / "job.json").read_text()).items():
            setattr(self, key, value)

    def order_of(self, epoch, samples):
        """The order file holds one order after the other; without one, shuffle as PyTorch does."""
        if self.order:
            whole = np.memmap(self.folder / self.order, dtype=np.int64, mode="r")
            return torch.from_numpy(np.array(whole[epoch * samples:(epoch + 1) * samples]))
        if not self.shuffle:
            return torch.arange(samples)
        return torch.randperm(samples, generator=torch.Generator().manual_seed(self.seed * 1_000_003 + epoch))

    def load_weights(self, model):
        if not self.weights:
            return
        flat = torch.from_numpy(np.fromfile(self.folder / self.weights, dtype=np.float32))
        wanted = sum(p.numel() for p in model.parameters())
        if len(flat) != wanted:
            raise ValueError(f"weights file; got {len(flat)} numbers, expected {wanted}")
        with torch.no_grad():
            for parameter, values in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
                parameter.copy_(values.view_as(parameter))


def share_of(order, step, batch, rank, world):
    """This rank's indices and the size of the global batch: parts differ by at most one, larger ones first."""
    whole = order[step * batch:(step + 1) * batch]
    each, extra = divmod(len(whole), world)
    begin = rank * each + min(rank, extra)
    return whole[begin:begin + each + (1 if rank < extra else 0)], len(whole)


class Reporter:
    """Events of this rank. Steps are kept as tuples and written between steps, at most once a second."""

    def __init__(self):
        self.steps = []
        self.flushed = time.monotonic_ns()

    def event(self, event, **fields):
        self.flush()
        print(json.dumps({"event": event, **fields}), flush=True)

    def step(self, number, samples, loss, at):
        self.steps.append((number, samples, loss, at))
        if at[-1] - self.flushed > FLUSH_SECONDS * 1e9:
            self.flush()

    def flush(self):
        lines = []
        for number, samples, loss, (begin, loaded, forward, backward, end) in self.steps:
            lines.append(json.dumps({
                "event": "step", "step": number, "samples": samples, "loss": finite(loss.item()) if samples else None,
                "begin_ns": begin, "end_ns": end,
                "load_ms": (loaded - begin) / 1e6, "forward_ms": (forward - loaded) / 1e6,
                "backward_ms": (backward - forward) / 1e6, "update_ms": (end - backward) / 1e6}))
        if lines:
            print("\n".join(lines), flush=True)
        self.steps.clear()
        self.flushed = time.monotonic_ns()


class Trainer:
    def __init__(self, job, rank, world):
        self.job, self.rank, self.world = job, rank, world
        self.report = Reporter()
        folder = pathlib.Path(job.folder, job.dataset["folder"])
        self.train = Images(folder, "train", job.dataset)
        self.test = Images(folder, "t10k", job.dataset) if job.evaluate else None
        torch.manual_seed(job.seed)
        self.model = MODELS[job.model](*job.dataset["shape"], job.dataset["classes"])
        job.load_weights(self.model)
        self.network = nn.parallel.DistributedDataParallel(self.model) if world > 1 else self.model
        # Measured with torch 2.13 on one core, ms of a ResNet-18 step: fused 4.7, the default loop 6.8, foreach 7.6.
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=job.learning_rate, momentum=job.momentum,
                                         weight_decay=job.weight_decay, fused=True)
        self.epoch_steps = math.ceil(len(self.train) / job.batch)
        self.steps = job.steps or job.epochs * self.epoch_steps

    def learning_rate(self, step):
        if self.job.learning_rate_schedule == "constant":
            return self.job.learning_rate
        return self.job.learning_rate * 0.5 * (1 + math.cos(math.pi * step / self.steps))

    def one_step(self, step, order):
        clock = time.monotonic_ns
        begin = clock()
        mine, whole = share_of(order, step % self.epoch_steps, self.job.batch, self.rank, self.world)
        samples = len(mine)
        # A rank without samples joins with one that weighs nothing: DDP must see every gradient.
        images, labels = self.train.take(mine if samples else order[:1])
        loaded = clock()
        loss = F.cross_entropy(self.network(images), labels)
        # DDP averages over ranks; the mean over samples is wanted.
        weight = samples * self.world / whole
        scaled = loss if weight == 1 else loss * weight
        forward = clock()
        scaled.backward()
        backward = clock()
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(step)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        loss = loss.detach()
        self.report.step(step, samples, loss, (begin, loaded, forward, backward, clock()))
        return loss, samples

    def accuracy(self):
        """Of the whole test set; each rank takes its part, with rank 0's batch norm statistics as DDP keeps them."""
        if self.test is None:
            return None
        if self.world > 1:
            for buffer in self.model.buffers():
                dist.broadcast(buffer, 0)
        self.model.eval()
        right = torch.zeros(1, dtype=torch.float64)
        with torch.no_grad():
            for begin in range(self.rank * 256, len(self.test), self.world * 256):
                images, labels = self.test.take(slice(begin, begin + 256))
                right += (self.model(images).argmax(1) == labels).sum()
        self.model.train()
        if self.world > 1:
            dist.all_reduce(right)
        return right.item() / len(self.test)

    def run(self):
        self.report.event("ready", rank=self.rank, world=self.world, ns=time.monotonic_ns())
        step = 0
        while step < self.steps:
            epoch = step // self.epoch_steps
            order = self.job.order_of(epoch, len(self.train))
            total, count = torch.zeros(1, dtype=torch.float64), 0
            for step in range(step, min(self.steps, (epoch + 1) * self.epoch_steps)):
                loss, samples = self.one_step(step, order)
                if samples:
                    total += loss * samples
                    count += samples
            step += 1
            self.report.flush()
            self.report.event("epoch", epoch=epoch, step=step, loss=finite(total.item() / count) if count else None,
                              accuracy=self.accuracy(), ns=time.monotonic_ns())
        self.report.event("done", steps=step, parameters=sum(p.numel() for p in self.model.parameters()),
                          parameters_digest=digest(self.model), peak_memory_bytes=peak_memory(),
                          versions={"python": sys.version.split()[0], "torch": torch.__version__,
                                    "numpy": np.__version__})


def finite(number):
    """JSON has no word for a loss that has diverged."""
    return number if math.isfinite(number) else None


def digest(model):
    """Over the bytes of the parameters in their order; equal on every rank."""
    hasher = hashlib.blake2b(digest_size=16)
    for parameter in model.parameters():
        hasher.update(parameter.detach().contiguous().numpy().tobytes())
    return hasher.hexdigest()


def peak_memory():
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


def main():
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    job = Job(sys.argv[1])
    torch.set_num_threads(job.threads)
    if world > 1:
        # A file, not a port: nothing to clash with and nothing left open.
        dist.init_process_group("gloo", init_method=f"file://{job.folder.resolve()}/rendezvous", rank=rank,
                                world_size=world, timeout=datetime.timedelta(seconds=job.timeout_s))
    Trainer(job, rank, world).run()


def leave(code):
    """End without taking the process group and the interpreter down. Gloo's threads may then still drop references to
    Python objects (DDP's reducer keeps the group past destroy_process_group); one that asks for the interpreter's lock
    while it ends is unwound through code that must not throw, and the process aborts with all of its work done
    (pytorch/pytorch issue 190489 and pull request 179291, unmended in 2.13). The kernel closes the sockets after what
    was sent on them, and every rank has left its last collective with what it needs."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        message = f"{type(error).__name__}: {error}".replace("\n", " ")
        print(json.dumps({"event": "error", "message": message}), flush=True)
        traceback.print_exc()
        leave(1)
    leave(0)
