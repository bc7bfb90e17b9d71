"""What bench/training.py trains: networks, their samples, and what ours is to reach beside each peer."""
from networks import CIFAR, IMAGENET, PLAIN, SENTENCES, TEXT

# GPT-2 small: its places and words, whatever the samples have.
GPT_SMALL = {**PLAIN, "seq": "1024", "vocab": "50257"}
# Its name here, the network, its options, our data set, the shape of samples, samples a worker.
_CASES = [
    ("smallcnn", "smallcnn", {}, "cifar10", CIFAR, 32), ("resnet18", "resnet18", {}, "cifar10", CIFAR, 32), ("resnet50", "resnet50", {}, "imagenet", IMAGENET, 4),
    ("resnet50-16", "resnet50", {}, "imagenet", IMAGENET, 16), ("mobilenetv2", "mobilenetv2", PLAIN, "imagenet", IMAGENET, 8), ("vgg11", "vgg11", PLAIN, "cifar10", CIFAR, 32),
    ("alexnet", "alexnet", PLAIN, "imagenet", IMAGENET, 16), ("transformer", "transformer", PLAIN, "translation", SENTENCES, 16), ("gpt", "gpt", GPT_SMALL, "language", TEXT, 4),
]
CASES = {name: {"name": name, "model": model, "options": options, "dataset": dataset, "shape": shape, "batch": batch} for name, model, options, dataset, shape, batch in _CASES}

AGAINST_PYTORCH, SMALL_CNN = 1.15, 1.8
AGAINST_TENSORFLOW = 1.0
AGAINST_DDP, AGAINST_DDP_COMMUNICATING = 1.2, 1.35
AGAINST_STRATEGIES = 1.2       # the better of TensorFlow's two
EFFICIENCY = 0.95              # two workers against one of ours
COMPUTING = ("resnet18", "resnet50", "resnet50-16", "mobilenetv2", "transformer", "gpt")  # most of the time: of which that is asked
EXPOSED = {"resnet18": 0.03}   # share of a step in which compute stands still because bytes move
MEMORY = 1.0                   # of PyTorch's, or DDP's
COMMUNICATES = 0.15            # share of DDP's step, from where on it is communication that a network waits for
COMMUNICATING = ("alexnet", "vgg11")  # whatever that share is here


def goal_against_pytorch(case):
    return SMALL_CNN if case["name"] == "smallcnn" else AGAINST_PYTORCH


def communicates(name, share):
    """share: of DDP's step, None where it was not measured."""
    return name in COMMUNICATING or (share is not None and share > COMMUNICATES)


def model_of(case):
    options = ",".join(f"{key}={value}" for key, value in case["options"].items())
    return case["model"] + (f"[{options}]" if options else "")


def dataset_of(case):
    shape = case["shape"]
    options = {"imagenet": f"[size={shape['height']}]", "translation": f"[vocabulary={shape['classes']},length={shape['target']}]",
               "language": f"[vocabulary={shape['classes']},length={shape['target']}]"}
    return case["dataset"] + options.get(case["dataset"], "")
