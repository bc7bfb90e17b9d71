"""Makes a report with the binary, from two quick runs, and opens it in headless Chromium.

usage: report_in_browser_test.py PATH-OF-DDLBENCH
"""
import pathlib
import subprocess
import sys
import tempfile

binary = pathlib.Path(sys.argv[1]).resolve()
with tempfile.TemporaryDirectory(prefix="ddlbench-report-") as folder:
    study = pathlib.Path(folder) / "browser.yaml"
    study.write_text("study: browser\n"
                     "base: {synthetic: true, train_samples: 1280, test_samples: 200, batch: 64, model: lenet, epochs: 2}\n"
                     "matrix:\n  - [{workers: 1}, {workers: 2, transport: shm}, {workers: 2, transport: tcp}]\n")
    subprocess.run([binary, "sweep", study, "--report", "report.html"], cwd=folder, check=True)
    # Scaling, where the time goes, accuracy and loss: by name, so that a page without one of them does not pass.
    wanted = ["throughput against workers", "where a step's time goes", "why not faster", "training loss", "test accuracy", "step times",
              "a step, worker by worker"]
    sys.exit(subprocess.run([sys.executable, pathlib.Path(__file__).with_name("report_browser_test.py"), "--rows", "3",
                             pathlib.Path(folder) / "report.html", "--captions", *wanted]).returncode)
