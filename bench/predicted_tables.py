"""What `ddlbench predict` itself says of rows of published tables: its own network, plan and simulation by the datasheet of the row's device, nothing of its package, of its wires only what NAME[link_inter=...] says.

usage: .deps/venv/bin/python bench/predicted_tables.py [--tables NAME,...] [--folder FOLDER]

FOLDER is where NeuSight's look-up lies (neusight_labels.csv); unless told where bench/look_ups.py looks.
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
from published import document, kendall, regret, table
from tables import first, look_up_folders, rows_of

NEUSIGHT = "neusight"
TABLES = ("megatron-sc21", "megatron-2020", "megatron-core-h100", "megatron-core-h100-strong", "nemo-h100", "azure-horovod", "tensorflow-cnn", "nvidia-resnet50", "sailor-memory", NEUSIGHT)
#: pixels that a network was published for, where they are not 224 (docs/validation.md, `image`)
PIXELS = {"inceptionv3": 299}
#: that tables name as we do
NETWORKS = ("alexnet", "inceptionv3", "mobilenetv2", "resnet50", "resnet101", "resnet152", "resnet50v2", "resnet101v2", "vgg16")
#: Azure's machines of 2018 gave NCCL no RDMA: what its rows between nodes reach is 0.58 GB/s (machines/stacks/horovod-openmpi+nccl.json), which whoever asks would have to know
SOCKETS = "5Gbps"
#: that ship with a description (machines/libraries)
LIBRARIES = ("nccl", "intelmpi", "openmpi")
#: NeuSight's devices by the profile that is nearest: its A100 and V100 are cards on PCIe, of less power and, V100, a lower clock
NEUSIGHT_DEVICES = {"NVIDIA_H100_80GB_HBM3": "h100-80gb", "NVIDIA_A100_80GB_PCIe": "a100-80gb", "NVIDIA_A100-PCIE-40GB": "a100-40gb", "Tesla_V100-PCIE-32GB": "v100-32gb", "Tesla_P100-PCIE-16GB": "p100"}
#: Hidden, layers, heads, words known, by its repository's scripts/asplos/data/DLmodel_configs at 6945927; BERT, an encoder, is taken for a GPT of its sizes, OPT's ReLU for a GELU.
NEUSIGHT_NETWORKS = {"gpt2_large": (1280, 36, 20, 50257), "gpt3_xl": (3072, 24, 24, 50257), "gpt3_27": (2560, 32, 32, 50257), "opt_13": (2048, 24, 32, 50272), "bert_large": (1024, 24, 16, 30522)}
#: Reads and writes of all scores. Forward: written by a product, scaled (2), masked (2), softmax (2), dropout (2, and a byte of four for its mask), read by a product. Backward: written, read, dropout (2.25), softmax (3), mask (2), scale (2), read by two products. Counted, of GPT-2's.
SCORE_PASSES = (1 + 2 + 2 + 2 + 2.25 + 1) + (1 + 1 + 2.25 + 3 + 2 + 2 + 2)


def neusight(folder):
    """Its look-up in the tables' form. It timed forward and backward, no optimizer; a row that nothing of ours describes says why."""
    path = first("neusight_labels.csv", look_up_folders(folder))
    return path and [neusight_row(row) for row in rows_of(path)]


def neusight_row(row):
    model, device = row["model"], row["device"]
    found = {"id": f"{device} {model} {row['mode']} {row['seq']} {row['batch']}", "device": NEUSIGHT_DEVICES.get(device, device), "devices": "1", "of": device, "network": model}
    if row["mode"] != "train":
        return {**found, "left_out": "inference alone"}
    if device not in NEUSIGHT_DEVICES:
        return {**found, "left_out": f"no profile of {device}"}
    if model not in NEUSIGHT_NETWORKS or row["option"]:
        return {**found, "left_out": f"no network of ours: {' '.join(filter(None, (model, row['option'])))}"}
    sizes = dict(zip(("hidden", "layers", "heads", "vocab"), map(str, NEUSIGHT_NETWORKS[model])))
    times = {"measured_ms": row["e2e_ms"], "forward_ms": row["fw_ms"], "backward_ms": row["bw_ms"]}
    return {**found, **sizes, **times, "model": "gpt", "precision": "fp32", "seq": row["seq"], "micro_batch": row["batch"], "global_batch": row["batch"], "dropout": "0.1", "optimizer": "sgd", "no_update": "1"}


def of_pairs(rows):
    """Of two rows of the same device, network and precision: what their ratio is off by, where what both are off by alike is in neither."""
    told = lambda row: tuple(row["words"][row["words"].index(flag) + 1].split("[devices")[0] for flag in ("--machine", "--model", "--precision"))
    logs = [(told(row), math.log(row["value"] / row["measured_ms"])) for row in rows]
    apart = [one - other for number, (what, one) in enumerate(logs) for of_other, other in logs[:number] if what == of_other]
    return f"{len(apart)}, {math.sqrt(statistics.mean(each ** 2 for each in apart)):.2f}" if apart else "-"


def of_choices(rows):
    found = regret(*zip(*rows))
    return "-" if found is None else f"{found:.1f} %"


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
    if row.get("left_out"):
        return row["left_out"]
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
        words += ["--model", f"gpt[hidden={row['hidden']},layers={row['layers']},heads={row['heads']},dropout={row.get('dropout') or 0}]", "--dataset", f"language[length={number(row, 'seq') + 1},vocabulary={vocabulary}]", "--optimizer", row.get("optimizer") or "adam"]
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


def at_peak_ms(row):
    """Of a GPT on one device: its products, backward twice forward, scores of all pairs of places as whoever keeps them makes them, at the device's peak."""
    hidden, length = number(row, "hidden"), number(row, "seq")
    a_word = number(row, "layers") * (24 * hidden**2 + 4 * length * hidden) + 2 * hidden * number(row, "vocab")
    return 1e3 * 3 * number(row, "global_batch") * length * a_word / document(row["device"])["device"]["peak_flops"][row["precision"]]


def scores_ms(row):
    """Of the scores that NeuSight's attention ("eager") keeps and ours does not: what scaling, mask, softmax and dropout read and write of them, forward and backward, by the bandwidth that passes have in predictions."""
    bytes_of_a_pass = 4 * number(row, "global_batch") * number(row, "layers") * number(row, "heads") * number(row, "seq") ** 2
    return 1e3 * SCORE_PASSES * bytes_of_a_pass / (document(row["device"])["device"]["memory_bandwidth"] * document("stacks/nvidia")["pass_bandwidth"])


def without_update(point):
    """The step that ends with backward; its interval as wide in proportion."""
    step = point["step_ms"]
    share = 1 - point["ledger_ms"]["update"] / step["value"]
    return {key: value * share for key, value in step.items()}


def predicted(words):
    done = subprocess.run([BINARY, "predict", *words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):
        return (done.stderr.strip().splitlines() or ["no reason"])[-1]
    point = json.loads(done.stdout)["points"][0]
    return point if point.get("step_ms") else point.get("reason") or "no reason"


def of_its_peak(rows):
    """What of NeuSight's rows goes by devices, and what by networks: each pass by itself, with scores that are kept, and shares of the peak."""
    print("\n| NeuSight | rows | bias | forward, backward | with scores kept: MAPE, bias, rms of the logarithm | of the peak: measured | predicted | forward's part of the step |\n|---|---|---|---|---|---|---|---|")
    kinds = collections.defaultdict(list)
    for column in ("of", "network"):
        for row in rows:
            kinds[row[column]].append(row)
    for kind, some in {**kinds, "all": rows}.items():
        passes = ", ".join(f"{statistics.mean(100 * (row['passes'][each][0] / row['passes'][each][1] - 1) for row in some):+.1f} %" for each in ("forward", "backward"))
        kept = [{**row, "value": row["value"] + row["scores_ms"]} for row in some]
        errors = [100 * (row["value"] / row["measured_ms"] - 1) for row in kept]
        shares = [[row["at_peak_ms"] / row[key] for row in some] for key in ("measured_ms", "value")] + [[row["passes"]["forward"][1] / row["measured_ms"] for row in some]]
        print(f"| {kind} | {len(some)} | {statistics.mean(row['error_pct'] for row in some):+.1f} % | {passes} | {statistics.mean(map(abs, errors)):.1f} %, {statistics.mean(errors):+.1f} %, {rms(kept)} | "
              + " | ".join(f"{min(each):.2f} to {max(each):.2f}" for each in shares) + " |")
    reached = [row["at_peak_ms"] / row["measured_ms"] for row in rows]
    off, share = min((statistics.mean(abs(100 * (each / share - 1)) for each in reached), share) for share in reached)
    print(f"\nAt the peak: MAPE {statistics.mean(100 * (1 - each) for each in reached):.1f} %; at one share of it for all, chosen for the least MAPE on these very rows, {share:.2f}: {off:.1f} %")


def rms(rows):
    """Of the logarithm."""
    return f"{math.sqrt(statistics.mean(math.log(row['measured_ms'] / row['value']) ** 2 for row in rows)):.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--folder")
    options = parser.parse_args()
    results, groups, chosen = [], collections.defaultdict(list), collections.defaultdict(list)
    for name in options.tables.split(","):
        rows = neusight(options.folder) if name == NEUSIGHT else table(name)
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
            step = without_update(found) if row.get("no_update") else found["step_ms"]
            one = {"table": name, "id": row.get("id"), "device": row["device"], "devices": number(row, "devices"), "measured_ms": measured, **step, "inside": step["low"] <= measured <= step["high"], "fits": found["fits"],
                   "error_pct": 100 * (step["value"] / measured - 1), "beyond": found["beyond"], "words": words}
            if name == NEUSIGHT:
                one |= {"of": row["of"], "network": row["network"], "at_peak_ms": at_peak_ms(row), "scores_ms": scores_ms(row), "passes": {each: (found["ledger_ms"][each], float(row[f"{each}_ms"])) for each in ("forward", "backward")}}
            results.append(one)
            groups[group].append(one)
            batch = int(words[words.index("--batch") + 1])
            rated = (lambda ms: ms) if row.get("measured_ms") else (lambda ms, batch=batch: batch / ms)
            chosen[group].append((row, rated(step["value"]), rated(measured)))
        for reason, count in left.items():
            print(f"{name}: {count} left out: {reason}", file=sys.stderr)
        sys.stderr.flush()
    print("\n| table | rows | MAPE | largest | bias | rms of the logarithm | how many times as fast one way is as another: pairs, rms of the logarithm | tau of steps | regret | in interval | on one device: rows, bias |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for name, rows in groups.items():
        errors = [row["error_pct"] for row in rows]
        alone = [row for row in rows if row["devices"] == 1]
        first = f"{len(alone)}, {statistics.mean(row['error_pct'] for row in alone):+.1f} %" if alone else "-"
        print(f"| {name} | {len(rows)} | {statistics.mean(map(abs, errors)):.1f} % | {max(map(abs, errors)):.1f} % | {statistics.mean(errors):+.1f} % | {rms(rows)} | {of_pairs(rows)} | {kendall([row['value'] for row in rows], [row['measured_ms'] for row in rows]):.3f} | {of_choices(chosen[name])} | {100 * statistics.mean(row['inside'] for row in rows):.0f} % | {first} |")
    if groups[NEUSIGHT]:
        of_its_peak(groups[NEUSIGHT])
    save("predicted_tables", {"machine": machine(), "rows": results})


if __name__ == "__main__":
    main()
