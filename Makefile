# SPDX-License-Identifier: MIT
#
# A thin front to Meson and Ninja. `make help` lists what there is.

BUILD ?= build
PREFIX ?=
DESTDIR ?=

configure_and_build = scripts/build $(BUILD) $(if $(PREFIX),--prefix=$(abspath $(PREFIX)))

all: ## build the library and the program in build/ (what `make` alone does)
	@scripts/deps build --optional probes
	@$(configure_and_build)

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@echo "Variables: PREFIX, DESTDIR (install); BUILD (build directory); CC, CFLAGS, JOBS"

demo: ## a before/after measurement in about a minute, with a plot
	@scripts/deps build demo --optional probes
	@$(configure_and_build)
	@scripts/demo $(BUILD)

check: ## all tests: gcc, clang, sanitizers, valgrind, aarch64, style
	@scripts/deps build --optional probes check
	@scripts/check

check-long: ## check, then the stress tests again for an hour
	@scripts/deps build --optional probes check check-long
	@scripts/check --long

bench: ## measure every workload and compare allocators
	@scripts/deps build demo --optional probes check
	@$(configure_and_build)
	@scripts/bench $(BUILD)

install: all ## install to PREFIX (/usr/local), below DESTDIR if given
	@DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --no-rebuild --quiet
	@test -n "$(DESTDIR)" || test "$$(id -u)" != 0 || /sbin/ldconfig

format: ## lay out all C files with clang-format
	@scripts/format

format-check: ## say which C files are not laid out so
	@scripts/format --check

clean: ## remove everything that was built
	rm -rf $(BUILD) build

.PHONY: all help demo check check-long bench install format format-check clean
