"""Ranks that a launcher starts, over one MPI: the conformance suites on one to five processes.
Under srun, in a SLURM that the test makes on this host and takes away.

usage: mpi_test.py PROGRAM openmpi|mpich|intel [HOME_OF_INTEL_MPI]
       mpi_test.py PROGRAM srun openmpi|mpich|intel=HOME…
Exits with 77, and says why, where the launcher is not here.
"""
import os
import re
import sys

import mpi_launchers
import slurm

PROGRAM, KIND = sys.argv[1], sys.argv[2]
CORES = len(os.sched_getaffinity(0))
# What fewer processes can do: the other tests want three to five ranks.
FEW = "MpiRanks.*:*CollectiveConformance.DoesEvery*:*CollectiveConformance.Sa*:*CollectiveConformance.G*:*CollectiveConformance.L*:*CollectiveDisagreement*"

def run(command, environment, *words, limit=300):
    job = mpi_launchers.run([*command, PROGRAM, *words], environment, limit)
    if job.left:
        sys.exit(f"{words}: {job.left}\n{job.output}")
    return job.code, job.output, job.took

def expect(holds, what, output):
    if not holds:
        sys.exit(f"{what}\n{output}")
    print(f"ok: {what}", flush=True)

def check(command_of, environment, implementation, numbers, limit=300):
    code, output, _ = run(command_of(2), environment, "scenario=names", limit=60)
    expect(code == 0 and f"rank 1 of 2: {implementation}" in output, f"{implementation} was taken from what the launcher left", output)
    for ranks in numbers:
        words = [f"--gtest_filter={FEW}"] if ranks < 4 else ["--gtest_filter=*TransportConformance*:*CollectiveDisagreement*"] if ranks > 4 else [
            "--gtest_filter=*CollectiveConformance*:*CollectiveDisagreement*:MpiRanks*"]
        code, output, took = run(command_of(ranks), environment, *words, limit=limit)
        tests = re.search(r"PASSED\D*(\d+) test", output)
        expect(code == 0 and tests, f"{tests and tests.group(1)} tests pass on {ranks} ranks in {took:.1f} s", output)

def under_srun(implementations):
    if why := slurm.missing():
        mpi_launchers.skip(why)
    with slurm.Slurm(cpus=4) as cluster:
        for each in implementations:
            implementation, _, home = each.partition("=")
            # Open MPI speaks PMIx; MPICH and Intel MPI the older PMI-2.
            kind = "pmix" if implementation == "openmpi" else "pmi2"
            command = lambda ranks: ["srun", f"--mpi={kind}", f"-n{ranks}", "--overcommit", "--kill-on-bad-exit=1", "--quiet"]
            environment = {**(mpi_launchers.intel(home) if home else {}), **cluster.environment, "OMPI_MCA_mpi_yield_when_idle": "1"}
            check(command, environment, implementation, [1, 2, 4] if implementation == "openmpi" else [2])
            # The other way round Open MPI itself says that it knows no PMI-2.
            if implementation == "openmpi" and "mpich" in implementations:
                code, output, _ = run(command(2), environment, "scenario=names", "implementation=mpich", limit=60)
                expect(code != 0 and "finds itself alone, but its launcher started 2 processes" in output, "MPICH by srun --mpi=pmix is refused", output)


def main():
    if KIND == "srun":
        under_srun(sys.argv[3:])
        return
    command, environment = mpi_launchers.launcher(KIND, *sys.argv[3:])
    if why := mpi_launchers.missing(KIND, command, environment):
        mpi_launchers.skip(why)

    # MPICH's own collectives do not yield: with more ranks than cores each waits for its time slice, minutes in all.
    numbers = [ranks for ranks in range(1, 6) if KIND != "mpich" or ranks <= max(3, CORES)]
    check(lambda ranks: [*command, "-n", str(ranks)], environment, KIND, numbers, limit=600)

main()
