"""What `ddlbench predict` itself says of rows of published tables: its own network, plan and simulation by the datasheet of the row's device, nothing of its package, of its wires only what NAME[link_inter=...] says.

usage: .deps/venv/bin/python bench/predicted_tables.py [--tables NAME,...]
`validate` predicts the same rows with constants that were fitted to such rows (docs/validation.md); this says how far off somebody is who asks of a network and a strategy of their own. Rows that no experiment of ours describes are counted, with why.
Prints Markdown; build/bench/predicted_tables.json has every row.
"""
import argparse
import collections
import json
import math
import statistics
import subprocess
import sys

from common import BINARY, machine, save
from published import table

TABLES = ("megatron-sc21", "megatron-2020", "megatron-core-h100", "megatron-core-h100-strong", "nemo-h100", "azure-horovod", "tensorflow-cnn", "nvidia-resnet50", "sailor-memory")
#: pixels that a network was published for, where they are not 224 (docs/validation.md, `image`)
PIXELS = {"inceptionv3": 299}
#: that tables name as we do
NETWORKS = ("alexnet", "inceptionv3", "mobilenetv2", "resnet50", "resnet101", "resnet152", "resnet50v2", "resnet101v2", "vgg16")
#: Azure's machines of 2018 gave NCCL no RDMA: what its rows between nodes reach is 0.58 GB/s (machines/stacks/horovod-openmpi+nccl.json), which whoever asks would have to know
SOCKETS = "5Gbps"
#: that ship with a description (machines/libraries)
LIBRARIES = ("nccl", "intelmpi", "openmpi")


def number(row, column, otherwise=0):
    return int(float(row.get(column) or otherwise))


def strategy_of(row):
    data, tensor, pipeline = (number(row, column, 1) for column in ("dp", "tp", "pp"))
    if data * tensor * pipeline != number(row, "devices"):
        return "data" if tensor * pipeline == 1 else None
    if tensor * pipeline == 1:
        return "sharded[level=1]" if row.get("sharded") == "1" else "data"
    samples, micro = number(row, "global_batch"), number(row, "micro_batch")
    options = [f"data={data}", f"pipeline={pipeline}", f"tensor={tensor}"]
    if pipeline > 1:
        options.append(f"micro={samples // (data * micro)}")
        chunks = number(row, "interleave", 1)
        options += [f"schedule=interleaved-1f1b,chunks={chunks}"] if chunks > 1 else ["schedule=1f1b"]
    if row.get("sharded") == "1":
        options.append("sharded=1")
    return f"hybrid[{','.join(options)}]"


def group_of(name, row):
    """Lines of the table: rows that go by something that nobody can know from a datasheet stand by themselves."""
    if name != "azure-horovod":
        return name
    if row["model"] == "mobilenetv2":
        return f"{name}, MobileNetV2"
    apart = "openmpi+nccl" in row["stack"] and number(row, "devices") > number(row, "devices_per_node")
    return f"{name}, NCCL between nodes, taken to be sockets of {SOCKETS}" if apart else name


def words_of(row, between=""):
    """Its experiment as words of the command, or why there is none. `between`: what joins nodes, in the place of what the row says."""
    if not row.get("measured_ms") and not row.get("measured_samples_per_s"):
        return "no time was measured"
    devices = number(row, "devices")
    layout = [f"devices_per_node={number(row, 'devices_per_node')}"] if row.get("devices_per_node") else []
    wires = {**row, "link_inter": between or row.get("link_inter")}
    layout += [f"{key}={wires[key]}" for key in ("link_intra", "link_inter") if wires.get(key) and wires[key] not in ("-", "none")]
    # Of several words behind the package the last that is a library's (openmpi+nccl is started by one and carried by the other).
    carried = [word for word in (row.get("stack") or "").partition("/")[2].split("+") if word in LIBRARIES]
    layout += [f"library={carried[-1]}"] if carried else []
    words = ["--machine", f"{row['device']}[{','.join(layout)}]" if layout else row["device"], "--workers", str(devices), "--precision", row.get("precision") or "fp32"]
    if row["model"] == "gpt":
        if row.get("kv_heads") and row["kv_heads"] != row["heads"]:
            return "fewer heads of keys than of queries"
        if row.get("ffn") and number(row, "ffn") != 4 * number(row, "hidden"):
            return "another width of its inner layers than 4 hidden"
        if not row.get("micro_batch"):
            return "its micro-batch is not printed"
        strategy = strategy_of(row)
        if strategy is None:
            return "dp x tp x pp are not its devices"
        vocabulary = number(row, "vocab", 51200)
        words += ["--model", f"gpt[hidden={row['hidden']},layers={row['layers']},heads={row['heads']},dropout=0]", "--dataset", f"language[length={number(row, 'seq') + 1},vocabulary={vocabulary}]", "--optimizer", "adam"]
        words += ["--batch", row["global_batch"], "--strategy", strategy]
        if number(row, "pp", 1) == 1:
            accumulate = number(row, "global_batch") // (number(row, "micro_batch") * number(row, "dp", 1))
            words += ["--accumulate", str(accumulate)] if accumulate > 1 else []
        words += ["--recompute"] if row.get("recompute") in ("full", "except_last") else []
        return [*words, "--synthetic"]
    if row["model"] not in NETWORKS:
        return f"no network of ours: {row['model']}"
    if (row.get("strategy") or "data") not in ("data", "single"):
        return f"strategy {row['strategy']}"
    if row.get("data") == "real":
        return "reads stored images, of a storage that no row describes"
    batch = number(row, "micro_batch", 1) * devices
    return [*words, "--model", row["model"], "--dataset", f"imagenet[size={PIXELS.get(row['model'], 224)}]", "--synthetic", "--batch", str(batch), "--strategy", "data" if devices > 1 else "single"]


def step_ms(row, batch):
    """What was measured of a step, ms, of the samples that the experiment has."""
    if row.get("measured_ms"):
        return float(row["measured_ms"])
    return 1e3 * batch / float(row["measured_samples_per_s"])


def predicted(words):
    done = subprocess.run([BINARY, "predict", *words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):
        return (done.stderr.strip().splitlines() or ["no reason"])[-1]
    point = json.loads(done.stdout)["points"][0]
    return point if point.get("step_ms") else point.get("reason") or "no reason"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", default=",".join(TABLES))
    options = parser.parse_args()
    results, groups = [], collections.defaultdict(list)
    for name in options.tables.split(","):
        rows = table(name)
        if rows is None:
            print(f"{name}: in no folder of tables: left out", file=sys.stderr)
            continue
        left = collections.Counter()
        for row in rows:
            group = group_of(name, row)
            words = words_of(row, SOCKETS if SOCKETS in group else "")
            found = predicted(words) if isinstance(words, list) else words
            if isinstance(found, str):
                left[found] += 1
                continue
            measured = step_ms(row, int(words[words.index("--batch") + 1]))
            step = found["step_ms"]
            one = {"table": name, "id": row.get("id"), "device": row["device"], "devices": number(row, "devices"), "measured_ms": measured, **step, "inside": step["low"] <= measured <= step["high"], "fits": found["fits"],
                   "error_pct": 100 * (step["value"] / measured - 1), "beyond": found["beyond"], "words": words}
            results.append(one)
            groups[group].append(one)
        for reason, count in left.items():
            print(f"{name}: {count} left out: {reason}", file=sys.stderr)
        sys.stderr.flush()
    print("\n| table | rows | MAPE | largest | bias | rms of the logarithm | in interval | on one device: rows, bias |\n|---|---|---|---|---|---|---|---|")
    for name, rows in groups.items():
        errors = [row["error_pct"] for row in rows]
        logs = [math.log(row["measured_ms"] / row["value"]) for row in rows]
        alone = [row for row in rows if row["devices"] == 1]
        rms = lambda values: f"{math.sqrt(sum(v * v for v in values) / len(values)):.2f}" if values else "-"
        first = f"{len(alone)}, {statistics.mean(row['error_pct'] for row in alone):+.1f} %" if alone else "-"
        print(f"| {name} | {len(rows)} | {statistics.mean(map(abs, errors)):.1f} % | {max(map(abs, errors)):.1f} % | {statistics.mean(errors):+.1f} % | {rms(logs)} | {100 * statistics.mean(row['inside'] for row in rows):.0f} % | {first} |")
    save("predicted_tables", {"machine": machine(), "rows": results})


if __name__ == "__main__":
    main()
