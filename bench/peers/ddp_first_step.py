"""A DDP script as a user would write it, up to its first step. Run by torchrun; prints when that step begins."""
import importlib.util
import pathlib
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

here = pathlib.Path(__file__).resolve()
spec = importlib.util.spec_from_file_location("peer", here.parents[2] / "src" / "ddl" / "subject" / "torch_ddp.py")
peer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peer)

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(peer.ResNet18(3, 32, 32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images, labels = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
print("FIRST_STEP", time.monotonic_ns(), flush=True)
F.cross_entropy(model(images), labels).backward()
optimizer.step()
dist.destroy_process_group()
