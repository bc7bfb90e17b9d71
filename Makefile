# ddlbench: `make demo` sets up, builds and runs the first study; `make test` sets up, builds and tests.
BUILD ?= build/release
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
PYTHON := .deps/venv/bin/python

.PHONY: demo test test-mpi check build setup install bench clean help

help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup:           ## Debian packages, Python wheels (seconds when already done)
	@tools/setup.sh

$(BUILD)/build.ninja: | setup
	cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release \
	  -DDDL_PYTHON=$(CURDIR)/$(PYTHON)

build: setup $(BUILD)/build.ninja   ## compile, and leave the link ./ddlbench
	@cmake --build $(BUILD) -j $(JOBS)
	@ln -sfn $(BUILD)/bin/ddlbench ddlbench

demo: build      ## the first study: Fashion-MNIST, two networks, one and two workers; writes report.html
	./ddlbench sweep studies/first.yaml --fresh --report report.html

test: build      ## every test, through the binary and the browser too
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -LE mpi
	@ctest --test-dir $(BUILD) -N -L mpi | grep -q 'Total Tests: 0' || echo "Tests under MPI's launchers and SLURM, minutes more: make test-mpi"

test-mpi: build  ## the same ranks under mpirun and srun, for each MPI that was found (5 minutes)
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -L mpi

check: build     ## the inner loop: tests that take seconds
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -LE "slow|mpi" -j $(JOBS)

install: build   ## a ddlbench that stands by itself under PREFIX
	cmake --install $(BUILD) --prefix $(PREFIX)

bench: build     ## the measurements that README quotes
	$(PYTHON) bench/all.py

clean:           ## remove what was built, keep what was fetched
	rm -rf build ddlbench
