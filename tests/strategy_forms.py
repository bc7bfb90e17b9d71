"""Every form of every strategy that has other tasks than the rest, and with how many workers tests run it: as few as have all kinds of places."""

FORMS = {
    "single": 1,
    "data": 3,
    "model": 3,
    "pipeline[schedule=gpipe,micro=6]": 3,
    "pipeline[schedule=1f1b,micro=6,recompute=always]": 3,
    "pipeline[schedule=interleaved-1f1b,micro=6]": 3,
    "pipeline[schedule=looped-bfs,micro=4,chunks=2]": 3,
    "pipeline[schedule=zb-h1,micro=6]": 3,
    "pipeline[schedule=zbv,micro=6]": 3,
    "pipeline[schedule=dualpipev,micro=6]": 3,
    "pipeline[schedule=pipedream]": 3,
    "pipeline[schedule=pipedream-2bw,micro=4]": 3,
    "pipeline[schedule=pipedream,replicas=2/1]": 3,
    "pipeline[replicas=2/1,micro=6]": 3,
    "pipeline[schedule=gpipe,replicas=1/2,micro=4]": 3,
    "pipeline[balance=pipedream,micro=6]": 3,
    "sharded[level=1]": 3,
    "sharded[level=2]": 3,
    "sharded[level=3,unit=1]": 3,
    "local[every=3]": 3,
    "local[every=2,post=2,momentum=average]": 3,
    "local[every=2,average=gossip]": 3,
    "parameter-server[servers=2]": 3,
    "parameter-server[async]": 3,
    "parameter-server[stale=2,servers=2]": 3,
    "tensor": 3,
    "tensor[split=height]": 3,
    "hybrid[pipeline=2,tensor=2,micro=4]": 4,
    "hybrid[data=2,sharded=2]": 4,
    "hybrid[pipeline=2,sharded=2,micro=4]": 4,
    "hybrid[data=2,pipeline=2,micro=4]": 4,
    # Their workers are threads of one process.
    "data[in-process=parallel]": 3,
    "data[in-process=mirrored]": 3,
    # Layers over two axes of workers.
    "tensor[split=height/channels,mesh=2x2]": 4,
    "hybrid[tensor=2x2,split=hidden+vocabulary/features]": 4,
}


def in_process(form):
    return "in-process" in form


def cut_by_flops(form):
    """Without the second that measuring layers takes."""
    if not form.startswith(("model", "pipeline", "hybrid[pipeline", "hybrid[data=2,pipeline")) or "balance" in form:
        return form
    return form[:-1] + ",balance=flops]" if form.endswith("]") else form + "[balance=flops]"
