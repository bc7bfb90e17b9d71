"""Traces in Chrome's, Perfetto's and Chakra's form, of real runs of every strategy: the latter read by Google's Protocol Buffers with the schemas of Perfetto's and MLCommons' own Python
packages, and all held against the record, and against each other; and Chakra's of steps that are predicted and never run.

usage: trace_formats_test.py PATH-OF-DDLBENCH PYTHON-WITH-PERFETTO
"""
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

from strategy_forms import FORMS

PROGRAM = r"""
import json, sys
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
def slices_of(path):
    trace = Trace()
    trace.ParseFromString(open(path, "rb").read())
    assert trace.SerializeToString(), "empty"
    unknown = [packet for packet in trace.packet if not packet.HasField("track_descriptor") and not packet.HasField("track_event")]
    assert not unknown, f"{len(unknown)} packets are of no kind that the schema knows"
    tracks, slices, stacks, starts, ends = {}, [], {}, {}, {}
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("thread"):
                assert track.parent_uuid in tracks and track.thread.tid > 0
                tracks[track.uuid] = [tracks[track.parent_uuid][0], track.thread.thread_name]
            else:
                assert track.process.pid > 0
                tracks[track.uuid] = [track.process.process_name, ""]
            continue
        event = packet.track_event
        stack = stacks.setdefault(event.track_uuid, [])
        process, lane = tracks[event.track_uuid]
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            notes = {note.name: note.int_value if note.HasField("int_value") else note.string_value for note in event.debug_annotations}
            stack.append({"process": process, "lane": lane, "name": event.name, "category": list(event.categories), "begin": packet.timestamp, "notes": notes,
                          "starts": list(event.flow_ids)})
        else:
            assert event.type == TrackEvent.TYPE_SLICE_END, event.type
            done = stack.pop()
            assert packet.timestamp >= done["begin"]
            done.update(end=packet.timestamp, ends=list(event.terminating_flow_ids))
            slices.append(done)
    assert not any(stacks.values()), "slices that do not end"
    return slices
for path in sys.argv[1:]:
    print(json.dumps(slices_of(path)), flush=True)
"""
# Read as Chakra's own programs read them: its message classes and its reader of files of messages.
CHAKRA = r"""
import json, pathlib, sys
from chakra.schema.protobuf.et_def_pb2 import CollectiveCommType, GlobalMetadata, Node, NodeType
from chakra.src.third_party.utils.protolib import decodeMessage, openFileRd
def value(attr):
    one = attr.WhichOneof("value")
    assert one, f"{attr.name} is of no type that the schema knows"
    return getattr(attr, one)
def messages_of(path):
    file = openFileRd(str(path))
    about, read = GlobalMetadata(), []
    assert decodeMessage(file, about)
    while decodeMessage(file, node := Node()):
        read.append(node)
        assert node.type in NodeType.values() and node.type not in (NodeType.INVALID_NODE, NodeType.METADATA_NODE)
    assert file.tell() == path.stat().st_size, "all of it was read"
    return about, read
def ranks_of(folder):
    ranks = {}
    for path in sorted(pathlib.Path(folder).glob("*.et")):
        about, nodes = messages_of(path)
        told = {attr.name: value(attr) for attr in about.attr}
        ranks[told["rank"]] = {"about": told, "collectives": dict(CollectiveCommType.items()),
                               "nodes": [{"id": n.id, "name": n.name, "type": n.type, "after": list(n.data_deps), "begin": n.start_time_micros, "took": n.duration_micros, **{attr.name: value(attr) for attr in n.attr}} for n in nodes]}
    return ranks
for folder in sys.argv[1:]:
    print(json.dumps(ranks_of(folder)), flush=True)
"""
# Some messages of these lie between two recorded steps, or are for some steps alone.
SOMETIMES = ("schedule=pipedream", "local", "parameter-server", "in-process")


def check(record, chrome, perfetto, always):
    spans = collections.Counter((e["rank"], e["step"], e["name"], e["cause"], round(e["begin_us"] * 1e3), round(e["end_us"] * 1e3)) for e in record["trace"])
    steps = len(record["trace_steps"])
    assert spans and steps

    # Perfetto: every span of the record once, and nothing else but steps.
    found = collections.Counter((int(s["process"].split()[1]), s["notes"].get("step"), s["name"], s["category"][0], s["begin"], s["end"]) for s in perfetto if s["lane"] != "steps")
    assert found == spans, f"spans; got {list((found - spans).items())[:3]}, expected {list((spans - found).items())[:3]}"
    assert sum(s["lane"] == "steps" for s in perfetto) == steps
    lanes = {(int(s["process"].split()[1]), s["lane"].split(":")[0].split(" (")[0]) for s in perfetto if s["lane"] != "steps"}
    assert lanes == {(e["rank"], e["stream"]) for e in record["trace"]}, lanes
    assert {rank for rank, _ in lanes} == {rank["rank"] for rank in record["ranks"]}

    # Chrome: the same.
    events = chrome["traceEvents"]
    got = collections.Counter((e["pid"], e["args"]["step"], e["name"], e["cat"], round(e["ts"] * 1e3), round((e["ts"] + e["dur"]) * 1e3)) for e in events if e["ph"] == "X" and e["cat"] != "step")
    assert got == spans
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} == {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}

    # Messages: those of the plan in each step, one arrow each.
    planned = sum(task["kind"] == "send" for role in record["plan"]["roles"] for task in role["tasks"] for _ in range(role["count"])) * len({e["step"] for e in record["trace"]})
    starts = {flow: s for s in perfetto for flow in s["starts"]}
    ends = {flow: s for s in perfetto for flow in s["ends"]}
    sends = len(starts)
    assert starts.keys() == ends.keys(), f"arrows; got {len(starts)} that start and {len(ends)} that end"
    assert sends == planned if always else sends > 0 or not any(s["notes"].get("kind") == "send" for s in perfetto), f"arrows; got {sends}, expected {planned}"
    for flow, send in starts.items():
        receive = ends[flow]
        # A server that applies what it is pushed tells of both as an update.
        assert send["notes"]["kind"] == "send" and (receive["notes"].get("kind") == "receive" or receive["category"] == ["update"]), (send, receive)
        assert send["process"] != receive["process"] or "server" in send["lane"] + receive["lane"]
        for key in ("step", "meeting", "micro_batch", "bytes"):
            assert key not in send["notes"] or send["notes"][key] == receive["notes"].get(key, send["notes"][key]), key
        assert send["begin"] <= receive["end"], (send, receive)
    arrows = collections.defaultdict(list)
    for event in events:
        if event["ph"] in "sf":
            arrows[event["id"]].append(event)
    assert len(arrows) == sends, f"arrows of Chrome's; got {len(arrows)}, expected {sends}"
    assert all([a["ph"] for a in pair] == ["s", "f"] and pair[0]["ts"] <= pair[1]["ts"] and (pair[0]["pid"], pair[0]["tid"]) != (pair[1]["pid"], pair[1]["tid"]) for pair in arrows.values())
    return sum(spans.values()), sends


def check_chakra(record, ranks):
    """Returns how many nodes there are. Of the step that was written: every span of a task once, dependencies that are there and lead nowhere in a circle, messages whose ends agree."""
    tasks = {rank: role["tasks"] for role in record["plan"]["roles"] for rank in range(role["first"], role["first"] + role["count"])}
    assert {int(rank) for rank in ranks} == {rank["rank"] for rank in record["ranks"]}
    sent, received = collections.Counter(), collections.Counter()
    for rank, file in ranks.items():
        nodes, step = file["nodes"], file["about"]["step"]
        spans = [e for e in record["trace"] if e["rank"] == int(rank) and e["step"] == step and e["task"] >= 0]
        assert [n["id"] for n in nodes] == list(range(len(nodes)))
        for stream, types in (("compute", (2, 4)), ("communication", (5, 6, 7))):
            ours = [e for e in spans if e["stream"] == stream and (stream != "compute" or e["cause"] in ("forward", "backward", "update") or tasks[int(rank)][e["task"]]["kind"] == "load")]
            there = [n for n in nodes if n["type"] in types]
            assert collections.Counter(e["name"] for e in ours).keys() == collections.Counter(n["name"] for n in there).keys(), (rank, stream)
            lost = sum(n["took"] for n in there) - sum(e["end_us"] - e["begin_us"] for e in ours)
            assert abs(lost) <= len(there), f"rank {rank}, {stream}: {lost} us are lost among {len(there)} nodes"
        for node in nodes:
            assert all(other < len(nodes) for other in node["after"]), node
        open_, done = {n["id"]: set(n["after"]) for n in nodes}, set()
        while ready := [i for i, after in open_.items() if after <= done]:
            done.update(ready)
            for i in ready:
                del open_[i]
        assert not open_, f"rank {rank}: dependencies in a circle: {list(open_.items())[:3]}"
        for node in nodes:
            if node["type"] in (5, 6):
                (sent if node["type"] == 5 else received)[(node["comm_src"], node["comm_dst"], node["comm_tag"], node["comm_size"])] += 1
            if node["type"] == 7:
                goals = {tasks[int(rank)][e["task"]]["goal"] for e in spans if e["name"] == node["name"] and e["stream"] == "communication"}
                assert [node["comm_type"]] == [file["collectives"][goal.upper().replace("-", "_")] for goal in goals], (node, goals)
                assert node["pg_name"], node
    # The other end may lie in a server, or in the step before.
    sure = {key for key in sent | received if min(key[:2]) >= 0}
    assert all(sent[key] == received[key] == 1 for key in sure) or "server" in record["plan"]["roles"][0]["name"] or record["plan"]["strategy"] == "local", sent - received
    return sum(len(file["nodes"]) for file in ranks.values())


def train(binary, folder, strategy, workers):
    """Returns the record of a run, and what was written of it by form."""
    done = subprocess.run([binary, "run", "--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--train-samples", "320", "--test-samples", "64", "--epochs", "1",
                           "--batch", "64", "--workers", str(workers), "--strategy", strategy, "--json"], cwd=folder, text=True, stdout=subprocess.PIPE, check=True)
    record = json.loads(done.stdout)
    files = {form: pathlib.Path(folder, f"{record['id']}.{form}") for form in ("chrome", "perfetto", "chakra")}
    for form, file in files.items():
        subprocess.run([binary, "export", record["id"], "--format", form, "-o", file, "--quiet"], cwd=folder, check=True)
    if strategy == "single":  # it is no matter of strategies
        piped = subprocess.run([binary, "export", record["id"], "--format", "perfetto"], cwd=folder, stdout=subprocess.PIPE, check=True).stdout
        assert piped == files["perfetto"].read_bytes(), "through a pipe come the same bytes"
    return record, files


def predict(binary, folder, number, strategy, workers):
    """Returns a simulated step as a record has it, which nobody ran, and the folder of its files in Chakra's form."""
    told, files = pathlib.Path(folder, f"{number}.json"), pathlib.Path(folder, f"{number}.predicted")
    for form, file in (("json", told), ("chakra", files)):
        subprocess.run([binary, "predict", "--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--batch", "64", "--workers", str(workers), "--strategy", strategy, "--machine", "v100-16gb", "--export", form, "-o", file,
                        "--quiet"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return json.loads(told.read_text()), files


def read(python, program, paths):
    """What a program prints of each, one after the other: starting it takes longer than reading one."""
    with subprocess.Popen([python, "-c", program, *paths], text=True, stdout=subprocess.PIPE) as running:
        for path, line in zip(paths, running.stdout, strict=True):
            yield json.loads(line)
    assert running.returncode == 0


# A workload as simulators have it, layers with weights alone: forward, gradient of the input, gradient of the weight, in us.
WORKLOAD = {"conv1": (310, 0, 450), "conv2": (620, 710, 830), "fc1": (140, 150, 160), "fc2": (41, 42, 43), "fc3": (11, 12, 13)}

# Of two steps, by PyTorch's names, through Chakra's own message classes: as its converter of PyTorch's traces has them.
OPERATORS = r"""
import sys
from chakra.schema.protobuf.et_def_pb2 import ALL_REDUCE, COMM_COLL_NODE, COMP_NODE, AttributeProto, GlobalMetadata, Node
from chakra.src.third_party.utils.protolib import encodeMessage
with open(sys.argv[1], "wb") as file:
    encodeMessage(file, GlobalMetadata(version="0.0.4"))
    number = 0
    for _ in range(2):
        for name, us in [(name, int(us)) for name, us in (word.split("=") for word in sys.argv[2:])]:
            node = Node(id=number, name=name.replace("@", "autograd::engine::evaluate_function: "), type=COMP_NODE, duration_micros=us, data_deps=[number - 1] if number else [])
            node.attr.append(AttributeProto(name="is_cpu_op", bool_val=True))
            encodeMessage(file, node)
            number += 1
        node = Node(id=number, name="nccl:all_reduce", type=COMM_COLL_NODE, duration_micros=77, data_deps=[number - 1])
        node.attr.append(AttributeProto(name="comm_type", int64_val=ALL_REDUCE))
        node.attr.append(AttributeProto(name="comm_size", int64_val=246824))
        encodeMessage(file, node)
        number += 1
"""


def imported(binary, folder, files):
    """What `probe import` says of them, and the compute entry that it writes into a profile."""
    profile = pathlib.Path(folder, "imported.json")
    profile.write_text(json.dumps({"schema": "ddlbench.machine/1", "cpu": None, "communication": []}))
    told = ("--model", "lenet", "--dataset", "fashion-mnist", "--batch", "8")
    done = subprocess.run([binary, "probe", "import", *files, *told, "--machine", profile, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    document, entries = json.loads(done.stdout), json.loads(profile.read_text())["compute"]
    assert len(entries) == 1, entries
    return document, {layer["family"].split()[0] + layer["sort"]: layer for layer in entries[0]["layers"]}, entries[0]


def check_import(binary, python, folder):
    """The way back: files that Chakra's own programs wrote, nothing of which passed through ours."""
    workload, made = pathlib.Path(folder, "workload.txt"), pathlib.Path(folder, "workload")
    lines = [f"{name}\t-1\t{forward}\tNONE\t0\t{inputs}\tNONE\t0\t{weights}\tALLREDUCE\t{1000 * number}\t0" for number, (name, (forward, inputs, weights)) in enumerate(WORKLOAD.items(), 1)]
    workload.write_text("\n".join(["DATA", str(len(lines)), *lines]) + "\n")
    subprocess.run([python, "-m", "chakra.src.converter.converter", "--log-filename", made.with_suffix(".log"), "Text", "--input", workload, "--output", made, "--num-npus", "2", "--num-passes", "3"], check=True)
    document, layers, entry = imported(binary, folder, [f"{made}.{rank}.et" for rank in range(2)])
    sums = [sum(of_layer) for of_layer in zip(*WORKLOAD.values())]
    for key, expected in zip(("forward_us", "backward_input_us", "backward_weight_us"), sums):
        found = sum((layer[key] or 0) * layer["count"] for layer in entry["layers"])
        assert abs(found - expected) < 0.01, (key, found, expected)
    for name, (forward, _, weights) in WORKLOAD.items():
        assert any(abs(layer["forward_us"] - forward) < 1e-3 and abs(layer["backward_weight_us"] - weights) < 1e-3 for layer in layers.values()), (name, layers)
    assert document["left_out"] == 0 and len(document["untold"]) > 0, document
    # Layers that take nothing of their own there are no measurement of such layers.
    assert {layer.get("within_others", False) for layer in layers.values() if layer["forward_us"] == 0} == {True}, layers
    assert not any(layer.get("within_others") for layer in layers.values() if layer["forward_us"] > 0), layers
    moved = {(each["collective"], each["bytes"]): each["count"] for each in document["collectives"]}
    assert moved == {("all-reduce", 1000 * number): 2 * 3 for number in range(1, 6)}, moved

    operators = {"aten::conv2d": (100, 200), "aten::linear": (30, 20, 10), "aten::relu": (1, 1, 1, 1), "aten::max_pool2d": (2, 2), "aten::cross_entropy_loss": (3,)}
    backward = {"@NllLossBackward0": (4,), "@AddmmBackward0": (15, 25, 35), "@ReluBackward0": (1, 1, 1, 1), "@MaxPool2DWithIndicesBackward0": (5, 5), "@ConvolutionBackward0": (400, 200)}
    words = [f"{name}={us}" for names in (operators, backward) for name, all_us in names.items() for us in all_us]
    trace = pathlib.Path(folder, "operators.et")
    subprocess.run([python, "-c", OPERATORS, trace, *words], check=True)
    document, layers, entry = imported(binary, folder, [trace])
    forward = sum((layer["forward_us"] or 0) * layer["count"] for layer in entry["layers"])
    gradients = sum(((layer["backward_input_us"] or 0) + (layer["backward_weight_us"] or 0)) * layer["count"] for layer in entry["layers"])
    assert abs(forward - sum(map(sum, operators.values()))) < 0.01, forward
    assert abs(gradients - sum(map(sum, backward.values()))) < 0.01, gradients
    assert document["collectives"] == [{"collective": "all-reduce", "bytes": 246824, "count": 2, "mean_us": 77}], document["collectives"]
    return len(layers)


def main():
    binary, python = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    if not pathlib.Path(python).exists() or subprocess.run([python, "-c", "import perfetto.protos.perfetto.trace.perfetto_trace_pb2, chakra.schema.protobuf.et_def_pb2"], capture_output=True).returncode:
        sys.exit(f"trace_formats_test: perfetto, mlc-chakra and protobuf are not installed for {python}; run tools/setup.sh, which needs PyPI once")
    with tempfile.TemporaryDirectory(prefix="ddlbench-traces-") as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        trained = list(pool.map(lambda form: train(binary, folder, *form), FORMS.items()))
        written = {form: [files[form] for _, files in trained] for form in ("perfetto", "chakra")}
        for strategy, (record, files), perfetto, chakra in zip(FORMS, trained, read(python, PROGRAM, written["perfetto"]), read(python, CHAKRA, written["chakra"]), strict=True):
            always = not any(word in strategy for word in SOMETIMES)
            spans, sends = check(record, json.loads(files["chrome"].read_text()), perfetto, always)
            nodes = check_chakra(record, chakra)
            print(f"{strategy}: {spans} spans and {sends} messages in both forms, {nodes} nodes of a step in Chakra's", flush=True)
        predicted = list(pool.map(lambda number, form: predict(binary, folder, number, *form), range(len(FORMS)), FORMS.items()))
        for strategy, (record, _), chakra in zip(FORMS, predicted, read(python, CHAKRA, [files for _, files in predicted]), strict=True):
            print(f"{strategy}, predicted: {check_chakra(record, chakra)} nodes of a step in Chakra's", flush=True)
        print(f"{check_import(binary, python, folder)} sorts of layers from files of Chakra's own programs", flush=True)


main()
