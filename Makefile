# ddlbench: `make demo` sets up, builds, measures this machine and runs the first study; `make test` sets up, builds and tests.
BUILD ?= build/release
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
PYTHON := .deps/venv/bin/python
PYTHON_CUDA ?= python3

.PHONY: apart demo program test test-gpu test-mpi check sanitize sanitize-asan sanitize-tsan fuzz build setup install bench clean help

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

program: setup $(BUILD)/build.ninja ## the same without tests and micro-benchmarks, in two thirds of the time
	@cmake --build $(BUILD) -j $(JOBS) --target ddlbench
	@ln -sfn $(BUILD)/bin/ddlbench ddlbench

# Measured first, so that the page shows what was predicted beside what came; where that fails the study goes on without.
demo: program    ## measure this machine, then the first study: Fashion-MNIST, two networks, one and two workers; writes report.html
	-./ddlbench probe comm --transport shm,tcp --collective all-reduce --budget 20ms
	-./ddlbench probe compute --model lenet,resnet18 --dataset fashion-mnist --batch 32,64 --optimizer sgd --budget 300ms
	./ddlbench sweep studies/first.yaml --fresh --report report.html

test: build      ## every test, through the binary and the browser too
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -LE mpi -j $(JOBS)
	@$(PYTHON) tools/skipped.py $(BUILD)
	@ctest --test-dir $(BUILD) -N -L mpi | grep -q 'Total Tests: 0' || echo "Tests under MPI's launchers and SLURM, minutes more: make test-mpi"

test-gpu:        ## what only a GPU shows: conformance on cuda:0, two workers on it, figures; PYTHON_CUDA has torch with CUDA
	$(PYTHON_CUDA) bench/gpu.py

test-mpi: build  ## the same ranks under mpirun and srun, for each MPI that was found (10 minutes)
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -L mpi

check: build     ## the inner loop: tests that take seconds
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -LE "slow|mpi" -j $(JOBS)
	@$(PYTHON) tools/skipped.py $(BUILD)

# What needs no LibTorch, which is not built with sanitizers.
PLAIN := core measure plan transport collective predict probe data
PLAIN_TESTS := $(PLAIN:%=%_test) collective_slow_test
LLVM ?= 19
SECONDS ?= 60

sanitize: sanitize-asan sanitize-tsan ## those tests under AddressSanitizer and UBSan, and under ThreadSanitizer

sanitize-asan: SANITIZERS := address,undefined
sanitize-tsan: SANITIZERS := thread
sanitize-asan sanitize-tsan: sanitize-%: setup
	cmake -S . -B build/$* -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1 -DDDL_TOGETHER=OFF -DDDL_PYTHON=$(CURDIR)/$(PYTHON) \
	  -DDDL_SANITIZE=$(SANITIZERS)
	cmake --build build/$* -j $(JOBS) --target $(PLAIN_TESTS)
	tools/sanitized.sh build/$* $(PLAIN_TESTS)

fuzz: setup      ## libFuzzer (clang) on every parser of bytes from outside, SECONDS each
	cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DDDL_PYTHON=$(CURDIR)/$(PYTHON) -DDDL_FUZZ=ON \
	  -DCMAKE_C_COMPILER=clang-$(LLVM) -DCMAKE_CXX_COMPILER=clang++-$(LLVM) -DDDL_SANITIZE=fuzzer-no-link,address,undefined
	cmake --build build/fuzz -j $(JOBS) --target wire_fuzz wire_seeds operation_fuzz text_fuzz
	tools/fuzz.sh build/fuzz $(SECONDS)

apart: setup     ## compile each file by itself, which finds an include that is missing
	cmake -S . -B build/apart -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDL_TOGETHER=OFF -DDDL_PYTHON=$(CURDIR)/$(PYTHON)
	cmake --build build/apart -j $(JOBS)

install: build   ## a ddlbench that stands by itself under PREFIX
	cmake --install $(BUILD) --prefix $(PREFIX)

bench: build     ## the measurements that README quotes
	$(PYTHON) bench/all.py

clean:           ## remove what was built, keep what was fetched
	rm -rf build ddlbench
