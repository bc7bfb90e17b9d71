"""One network in TensorFlow: times of training steps. One worker, MirroredStrategy (one process, a logical device each) or MultiWorkerMirroredStrategy (a process each, ring over gRPC).

As many threads a worker as the job says; a step is a tf.function; SGD with momentum; samples are drawn once and stay in memory, images channels last; workers have samples of their own, and their copies of the
weights must end equal. bf16 is Keras' policy mixed_bfloat16. `jit` compiles the step by XLA, for one worker.

usage: tensorflow_training.py JSON, with {model, options{}, shape{}, batch, steps, workers, strategy: null|"mirrored"|"multi-worker", jit, precision}; {count: [{model, options, shape}…]} only counts parameters
prints JSON: {step_ms, cpu_ms, peak_memory_bytes, parameters, world, version}, as torch_networks.py does; of MirroredStrategy there is one process. For `count` a list of numbers
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import own_process  # noqa: E402
import tensorflow_networks  # noqa: E402

WARM_UP = 2  # as torch_networks.py


def strategy_of(job):
    """Before any operation. Threads, and a strategy; None for one worker."""
    replicas = job["workers"] if job["strategy"] == "mirrored" else 1
    tf.config.threading.set_intra_op_parallelism_threads(replicas * job["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(replicas)
    if job["strategy"] == "mirrored":
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * job["workers"])
        return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(job["workers"])], cross_device_ops=tf.distribute.ReductionToOneDevice())
    if job["strategy"] == "multi-worker":
        ring = tf.distribute.experimental.CommunicationImplementation.RING
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=tf.distribute.experimental.CommunicationOptions(implementation=ring))
    return None


def samples(shape, batch, worker):
    """What a worker's network is given, as a list, and what it is to say."""
    draw = np.random.default_rng(2 + worker)
    if shape["channels"]:
        images = draw.standard_normal((batch, shape["height"], shape["width"], shape["channels"]), dtype=np.float32)
        return [images], draw.integers(0, shape["classes"], batch).astype(np.int32)
    words = draw.integers(3, shape["classes"], (batch, shape["target"])).astype(np.int32)
    source = [draw.integers(3, shape["classes"], (batch, shape["source"])).astype(np.int32)] if shape["source"] else []
    return [*source, words[:, :-1]], words[:, 1:]


def values(tree, make):
    """tree of arrays of each worker, by make(array of each): constants, or one value a replica."""
    return tf.nest.map_structure(lambda *each: make(each), *tree)


def copies(strategy, model):
    """Sums of absolute weights of every replica in this process, in double precision."""
    whole = None
    for variable in model.trainable_variables:
        local = strategy.experimental_local_results(variable.value) if strategy else [variable.value]
        sums = np.array([np.abs(np.asarray(tf.convert_to_tensor(copy), dtype=np.float64)).sum() for copy in local])
        whole = sums if whole is None else whole + sums
    return whole.tolist()


def train(job, rank):
    """What ranks of this process tell own_process.same_weights, the first of them with times and memory."""
    strategy = strategy_of(job)
    if job["precision"] == "bf16":
        tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    world = strategy.num_replicas_in_sync if strategy else 1
    if world != job["workers"]:
        raise RuntimeError(f"[tensorflow_training] {job['strategy']} has {world} replicas; expected {job['workers']}")
    tf.keras.utils.set_random_seed(1)
    scope = strategy.scope() if strategy else tf.distribute.get_strategy().scope()
    each = job["batch"] // job["workers"]
    with scope:
        model = tensorflow_networks.build(job["model"], job["shape"], job["options"])
        optimizer = tf.keras.optimizers.SGD(0.001, momentum=0.9)
        optimizer.build(model.trainable_variables)
    local = range(world) if job["strategy"] == "mirrored" else [rank]
    drawn = [samples(job["shape"], each, worker) for worker in local]
    if strategy:
        def per_replica(arrays):
            return strategy.experimental_distribute_values_from_function(lambda context: tf.constant(arrays[context.replica_id_in_sync_group if len(arrays) > 1 else 0]))
        given, wanted = values(drawn, per_replica)
    else:
        given, wanted = values(drawn, lambda arrays: tf.constant(arrays[0]))

    def one(given, wanted):
        with tf.GradientTape() as tape:
            logits = model(given, training=True)
            # The mean over the global batch: gradients of replicas are added up.
            loss = tf.reduce_sum(tf.reduce_mean(tf.reshape(tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, logits), (each, -1)), 1)) / job["batch"]
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    @tf.function(jit_compile=True if job.get("jit") else None)
    def step(given, wanted):
        if not strategy:
            return one(given, wanted)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(one, args=(given, wanted)), axis=None)

    before = copies(strategy, model)
    clock = own_process.StepClock(WARM_UP)
    own_process.reset_peak_memory()
    for _ in range(job["steps"] + WARM_UP):
        with clock.step():
            loss = float(step(given, wanted))
    peak = own_process.peak_memory()
    if not np.isfinite(loss):
        raise RuntimeError(f"[tensorflow_training] the loss of {job['model']} is {loss} after {job['steps'] + WARM_UP} steps")
    return {"wall_ms": clock.wall_ms, "cpu_ms": clock.cpu_ms, "peak": peak, "parameters": tensorflow_networks.parameters(model), "world": world,
            "copies": [{"before": b, "after": a} for b, a in zip(before, copies(strategy, model))]}


def ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


def in_processes(job):
    """A process a worker; what each of them tells."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports(job["workers"])]}
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, f"rank{rank}.json") for rank in range(job["workers"])]
        started = []
        for rank, file in enumerate(files):
            environment = {**os.environ, "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})}
            started.append(subprocess.Popen([sys.executable, __file__, json.dumps(job), str(rank), str(file)], env=environment, stdout=sys.stderr))
        ended = [process.wait() for process in started]
        if any(ended):
            sys.exit(f"[tensorflow_training] workers ended with {ended}")
        return [json.loads(file.read_text()) for file in files]


def main():
    job = json.loads(sys.argv[1])
    if len(sys.argv) > 2:
        pathlib.Path(sys.argv[3]).write_text(json.dumps(train(job, int(sys.argv[2]))))
        sys.stdout.flush()
        os._exit(0)  # Its collectives' threads wait for workers that are gone
    if "count" in job:
        print(json.dumps([tensorflow_networks.parameters(tensorflow_networks.build(each["model"], each["shape"], each["options"])) for each in job["count"]]))
        return
    told = in_processes(job) if job["strategy"] == "multi-worker" else [train(job, 0)]
    own_process.same_weights([copy for each in told for copy in each["copies"]])
    print(json.dumps({**own_process.group(told), "parameters": told[0]["parameters"], "world": told[0]["world"], "version": tf.__version__}))


if __name__ == "__main__":
    main()
