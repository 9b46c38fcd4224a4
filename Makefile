# The front door: every target installs what it needs first and is safe to run again.
# `make help` lists the targets. Set PRESET=dev for a debug build.
PRESET ?= release
BUILD := build/$(PRESET)
VENV := $(if $(KILN_VENV),$(KILN_VENV),$(CURDIR)/.venv)
JOBS ?= $(shell nproc)
PYTHON := $(VENV)/bin/python
RUN := PYTHONPATH=$(CURDIR)/$(BUILD)/python:$(CURDIR) $(PYTHON)

# Units with a precompiled header hit the cache, too, in this folder; docs/design/build.md.
export CCACHE_SLOPPINESS := pch_defines,time_macros,include_file_mtime,include_file_ctime
export CCACHE_NOHASHDIR := true
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

CONFIGURE_OPTIONS := -DPython_EXECUTABLE=$(PYTHON)
ifdef KILN_LLVM_DIR
CONFIGURE_OPTIONS += -DKILN_LLVM_DIR=$(KILN_LLVM_DIR) -DCMAKE_C_COMPILER=$(KILN_LLVM_DIR)/bin/clang \
  -DCMAKE_CXX_COMPILER=$(KILN_LLVM_DIR)/bin/clang++
endif

.PHONY: help bootstrap configure build demo test asan tsan bench docs lint tidy format install clean
.DEFAULT_GOAL := build

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 14

bootstrap: ## install what is missing: Debian packages and .venv
	@scripts/bootstrap.sh

configure: bootstrap
	@scripts/build.sh configure $(PRESET) $(CONFIGURE_OPTIONS)

build: configure ## build the libraries, the tools, the tests and the Python binding
	@scripts/build.sh build $(PRESET)

demo: configure ## embed sentences with MiniLM, print their neighbours, write build/demo/minilm.mef
	@scripts/build.sh build $(PRESET) kiln kiln_kernel_compiler kiln_python kiln_command
	@KILN_CACHE=0 $(RUN) examples/minilm/demo.py --output build/demo/minilm.mef $(if $(SENTENCES),--sentences "$(SENTENCES)")

test: build ## build and run every test
	@scripts/build.sh test $(PRESET)

asan: ## run the tests under AddressSanitizer and UBSan
	@$(MAKE) --no-print-directory PRESET=asan configure
	@scripts/build.sh build asan
	@scripts/build.sh test asan -LE 'packaging|targets'

tsan: ## run the C++ tests under ThreadSanitizer
	@$(MAKE) --no-print-directory PRESET=tsan configure
	@scripts/build.sh build tsan
	@scripts/build.sh test tsan -LE 'python|packaging|targets'

bench: build ## measure: models beside other runtimes, overheads, compile time, memory
	@scripts/bootstrap.sh --bench
	@$(RUN) benchmarks/run.py --build $(BUILD) $(BENCH)

docs: build ## write the reference into build/docs and check the links of every page
	@$(RUN) scripts/make_docs.py --output build/docs

lint: bootstrap ## check formatting, layers, scripts and Python sources
	@scripts/lint.sh

tidy: configure ## run clang-tidy over the C++ sources (minutes)
	@scripts/build.sh build $(PRESET)
	@git ls-files 'kiln/*.cpp' 'compiler/*.cpp' 'tools/*.cpp' | xargs -P $(JOBS) -n 4 clang-tidy-22 -quiet -p $(BUILD)

format: bootstrap ## format the C++ sources in place
	@git ls-files '*.cpp' '*.h' | xargs clang-format-22 -i

install: build ## install into PREFIX (default build/install)
	@cmake --install $(BUILD) --prefix $(if $(PREFIX),$(PREFIX),build/install) | tail -n 1

clean: ## remove everything that was built; .venv stays
	@rm -rf build dist
