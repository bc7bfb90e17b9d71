"""Traces in Chrome's and Perfetto's form, of real runs: the latter read by Google's Protocol Buffers with the schema of Perfetto's own Python package, and both held
against the record, and against each other.

usage: trace_formats_test.py PATH-OF-DDLBENCH PYTHON-WITH-PERFETTO
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = r"""
import json, sys
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
trace = Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
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
print(json.dumps(slices))
"""
# Every strategy, each of its forms that has other tasks than the rest.
RUNS = [("data", 2), ("model", 2), ("pipeline[schedule=gpipe,micro=4]", 2), ("pipeline[schedule=interleaved-1f1b,micro=4]", 2), ("pipeline[schedule=zb-h1,micro=4]", 2),
        ("pipeline[schedule=pipedream]", 2), ("pipeline[schedule=pipedream,replicas=2/1]", 3), ("pipeline[replicas=2/1,micro=4]", 3), ("sharded[level=2]", 2),
        ("sharded[level=3,unit=1]", 2), ("local[every=3]", 2), ("local[every=2,average=gossip]", 3), ("parameter-server[servers=2]", 2), ("parameter-server[async]", 2), ("tensor", 2),
        ("tensor[split=height]", 2), ("hybrid[pipeline=2,tensor=2,micro=4]", 4), ("hybrid[data=2,sharded=2]", 4), ("data[in-process=parallel]", 2), ("data[in-process=mirrored]", 2)]
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
    lanes = {s["lane"].split(":")[0].split(" (")[0] for s in perfetto}
    assert lanes == {"steps"} | {e["stream"] for e in record["trace"]}, lanes

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
        assert send["begin"] <= receive["end"]
    arrows = collections.defaultdict(list)
    for event in events:
        if event["ph"] in "sf":
            arrows[event["id"]].append(event)
    assert len(arrows) == sends
    assert all([a["ph"] for a in pair] == ["s", "f"] and pair[0]["ts"] <= pair[1]["ts"] and (pair[0]["pid"], pair[0]["tid"]) != (pair[1]["pid"], pair[1]["tid"]) for pair in arrows.values())
    return sum(spans.values()), sends


def main():
    binary, python = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    if not pathlib.Path(python).exists() or subprocess.run([python, "-c", "import perfetto.protos.perfetto.trace.perfetto_trace_pb2"], capture_output=True).returncode:
        sys.exit(f"trace_formats_test: perfetto and protobuf are not installed for {python}; run tools/setup.sh, which needs PyPI once")
    with tempfile.TemporaryDirectory(prefix="ddlbench-traces-") as folder:
        for strategy, workers in RUNS:
            done = subprocess.run([binary, "run", "--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--train-samples", "640", "--test-samples", "64", "--epochs", "1",
                                   "--batch", "64", "--workers", str(workers), "--strategy", strategy, "--json"], cwd=folder, text=True, stdout=subprocess.PIPE, check=True)
            record = json.loads(done.stdout)
            for form, file in (("chrome", "trace.json"), ("perfetto", "trace.pftrace")):
                subprocess.run([binary, "export", record["id"], "--format", form, "-o", file, "--quiet"], cwd=folder, check=True)
            piped = subprocess.run([binary, "export", record["id"], "--format", "perfetto"], cwd=folder, stdout=subprocess.PIPE, check=True).stdout
            assert piped == pathlib.Path(folder, "trace.pftrace").read_bytes(), "through a pipe come the same bytes"
            read = subprocess.run([python, "-c", PROGRAM, pathlib.Path(folder, "trace.pftrace")], text=True, stdout=subprocess.PIPE, check=True)
            always = not any(word in strategy for word in SOMETIMES)
            spans, sends = check(record, json.loads(pathlib.Path(folder, "trace.json").read_text()), json.loads(read.stdout), always)
            print(f"{strategy}: {spans} spans and {sends} messages in both forms")


main()
