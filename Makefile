# Tidemark. One makefile, one build directory for each flavour; adding a file registers it.
#
#   make            build/tidemark and build/libtidemark.a
#   make test       everything that runs in minutes, on servers it starts itself
#   make demo       watch it work against a throwaway PostgreSQL
#   make sim sim-mutants  histories of a simulated database; SIM_SECONDS, SEED
#   make unit       unit tests only; make integration ONLY="010 keys": some tests on real servers
#   make asan tsan ubsan  unit tests, simulator and a short pass on servers under sanitizers
#   make valgrind   unit tests under valgrind; minutes
#   make faults     kills, power losses, full disks and dead connections, on real servers; FAULT_SECONDS, SEED
#   make bench      speed, latency and memory, as ratios; most of an hour. BENCH_SCALE, BENCH_ONLY, BENCH_ROUNDS
#   make fmt fmt-check install uninstall clean
#   Variables: V=1 shows commands, CFLAGS are appended, FLAVOUR=asan|tsan|cov|fuzz, PREFIX, DESTDIR

FLAVOUR ?= release
B := build$(if $(filter-out release,$(FLAVOUR)),/$(FLAVOUR))
Q := $(if $(V),,@)
say = $(if $(V),,@echo "  $(1)  $(2)")

CC ?= cc
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual \
        -Wpointer-arith -Wundef -Wvla -Wformat=2 -Wimplicit-fallthrough $(if $(CI),-Werror)
OPT.release := -O2 -g
OPT.asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT.ubsan := -O1 -g -fsanitize=undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT.tsan := -O1 -g -fsanitize=thread -fno-omit-frame-pointer
OPT.cov := -O0 -g --coverage
OPT.fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined \
            -fno-omit-frame-pointer -Wno-implicit-fallthrough # clang's; uthash.h falls through
PG_CFLAGS := $(shell pkg-config --cflags libpq 2>/dev/null || echo -I/usr/include/postgresql)
ALL_CFLAGS := -std=c11 -D_GNU_SOURCE -I. $(PG_CFLAGS) $(WARN) $(OPT.$(FLAVOUR)) -pthread -MMD -MP $(CFLAGS)
ALL_LDFLAGS := $(OPT.$(FLAVOUR)) -pthread $(LDFLAGS)

FOLDERS := state apply snapshot reader
srcs = $(filter-out reader/main.c,$(wildcard $(1)/*.c))
objs = $(patsubst %.c,$(B)/obj/%.o,$(call srcs,$(1)))

# What a folder may use: the direction of the design, enforced by the linker in unit tests.
LIBS.state := $(B)/state.a
LIBS.apply := $(B)/apply.a $(LIBS.state)
LIBS.snapshot := $(B)/snapshot.a $(LIBS.apply)
LIBS.reader := $(B)/reader.a $(LIBS.snapshot)
EXT.state := -llmdb
EXT.apply := $(EXT.state)
EXT.snapshot := $(EXT.state)
EXT.reader := -lpq -luv -linih -ljansson $(EXT.state)

UNIT := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/*_test.c))
.PHONY: all setup test check demo unit cli integration asan tsan ubsan sanitized valgrind fmt fmt-check install uninstall clean help
all: $(B)/tidemark $(B)/libtidemark.a

define folder
$(B)/$(1).a: $(call objs,$(1))
	$(call say,AR,$$@)
	$(Q)rm -f $$@ && $(AR) rcs $$@ $$^
endef
$(foreach f,$(FOLDERS),$(eval $(call folder,$(f))))

$(B)/obj/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -c -o $@ $<

$(B)/tidemark: $(B)/obj/reader/main.o $(LIBS.reader)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(EXT.reader)

# The public read API: everything of state/, so that a reader links one archive and LMDB.
$(B)/libtidemark.a: $(call objs,state)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# tests/unit/<folder>_<topic>_test.c links that folder and what it may use, nothing else.
define unit_rule
$(B)/unit/$(1)_%_test: $(B)/obj/tests/unit/$(1)_%_test.o $(LIBS.$(1))
	$$(call say,LINK,$$@)
	$(Q)mkdir -p $$(@D) && $(CC) $(ALL_LDFLAGS) -o $$@ $$^ $(EXT.$(1)) -lcmocka
endef
$(foreach f,$(FOLDERS),$(eval $(call unit_rule,$(f))))

unit: $(UNIT)
	$(Q)tests/run-unit $(UNIT)

# ---- what a newcomer types: each does all of its own set-up, so packages come before the build ----

test: setup
	$(Q)$(MAKE) --no-print-directory check

demo: setup
	$(Q)$(MAKE) --no-print-directory all
	$(Q)TIDEMARK=$(abspath $(B)/tidemark) tests/demo

setup:
	$(Q)tests/setup

# ---- suites, for who has the packages ----

check: all $(UNIT) $(B)/sim $(B)/damage
	$(Q)SIM=$(B)/sim TIDEMARK=$(abspath $(B)/tidemark) tests/run-all $(UNIT) -- tests/run-sim tests/integration/run.py

# The read commands on stores that a small helper makes: no server.
$(B)/cli/make_store: $(B)/obj/tests/cli/make_store.o $(LIBS.apply)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_LDFLAGS) -o $@ $^ $(EXT.apply)
cli: all $(B)/cli/make_store
	$(Q)/usr/bin/python3 tests/cli/cli_test.py $(B)

# For tests that repair a store: it meddles with one.
$(B)/damage: $(B)/obj/tests/integration/damage.o $(LIBS.state)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(EXT.state)
integration: all $(B)/damage
	$(Q)TIDEMARK=$(abspath $(B)/tidemark) tests/integration/run.py $(ONLY)

# Faults on real servers and real disks: kills, power losses, full disks, dead connections.
FAULT_HELPERS := $(B)/faults/preload.so $(B)/faults/look
.PHONY: faults
$(B)/faults/preload.so: tests/faults/preload.c
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) -std=c11 -D_GNU_SOURCE $(WARN) -O2 -g -shared -fPIC -o $@ $< -ldl
$(B)/faults/look: $(B)/obj/tests/faults/look.o $(LIBS.state)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_LDFLAGS) -o $@ $^ $(EXT.state)
faults:
	$(Q)tests/setup faults
	$(Q)$(MAKE) --no-print-directory all $(FAULT_HELPERS)
	$(Q)TIDEMARK=$(abspath $(B)/tidemark) FAULTS=$(abspath $(B)/faults) tests/integration/run.py -j 3 --suite tests/faults $(ONLY)

# Under sanitizers: unit tests, simulator, a short pass on real servers.
SHORT := tests/run-short
asan tsan ubsan: setup
	$(Q)$(MAKE) --no-print-directory FLAVOUR=$@ sanitized
sanitized: all $(UNIT) $(B)/sim $(B)/damage
	$(Q)SIM=$(B)/sim TIDEMARK=$(abspath $(B)/tidemark) tests/run-all $(UNIT) -- tests/run-sim $(SHORT)

valgrind: $(UNIT)
	$(Q)RUN="valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite" tests/run-unit $(UNIT)

# ---- the simulator: the copier and the applier against a small database, tests/sim ----
#   make sim          SIM_SECONDS=30; SEED=N begins there; build/sim -v N shows one history step by step
#   make sim-mutants  the algorithm broken in one place each: every break must be noticed

SIM_SECONDS ?= 30
SIM_OBJS := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/sim/*.c))
.PHONY: sim sim-mutants
$(B)/sim: $(SIM_OBJS) $(LIBS.snapshot)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(EXT.snapshot)
sim: $(B)/sim
	$(Q)SIM=$(B)/sim SIM_SECONDS=$(SIM_SECONDS) tests/run-sim
MUTANTS := $(B)/mutants
MUTANT_CHOICE := $(MUTANTS)/obj/tests/unit/mutant.o
sim-mutants:
	$(Q)$(MAKE) --no-print-directory B=$(MUTANTS) CFLAGS="$(CFLAGS) -DTIDEMARK_MUTANTS" $(MUTANTS)/sim $(MUTANT_CHOICE)
	$(Q)$(MAKE) --no-print-directory B=$(MUTANTS) CFLAGS="$(CFLAGS) -DTIDEMARK_MUTANTS" LDFLAGS="$(LDFLAGS) \
		$(MUTANT_CHOICE)" $(addprefix $(MUTANTS)/unit/,apply_guard_test apply_purge_test)
	$(Q)SIM=$(MUTANTS)/sim UNIT=$(MUTANTS)/unit tests/run-mutants

# ---- fuzzing: every byte that arrives from outside, tests/fuzz/fuzz_*.c ----
#   make fuzz       new inputs for FUZZ_SECONDS=20 a target, with clang; FUZZ_ONLY="changes key"
#   make fuzz-smoke the inputs that are kept, once, under gcc's sanitizers

FUZZ := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_HELP := $(patsubst %.c,$(B)/obj/%.o,$(filter-out tests/fuzz/fuzz_% %/replay.c,$(wildcard tests/fuzz/*.c)))
FUZZ_MAIN := $(if $(filter fuzz,$(FLAVOUR)),,$(B)/obj/tests/fuzz/replay.o)
# There a server's answers are made up: these are its own functions.
wrap = $(patsubst %,-Xlinker --wrap=%,$(1))
$(B)/fuzz/fuzz_attach: FUZZ_LINK := $(call wrap,PQserverVersion $(addprefix pgconn_,open close pg query backend_pid \
                                    set_silence was_silent on_wait))
$(B)/fuzz/fuzz_query: FUZZ_LINK := $(call wrap,$(addprefix PQ,enterPipelineMode sendQueryParams sendPrepare \
                                   sendQueryPrepared pipelineSync getResult isBusy status resultErrorField) \
                                   $(addprefix pgconn_,pg flush listen expect again) err_of_result clock_now_us loop_now_us)
.PHONY: fuzz fuzz-smoke fuzz-run fuzz-replay
$(B)/fuzz/fuzz_%: $(B)/obj/tests/fuzz/fuzz_%.o $(FUZZ_HELP) $(FUZZ_MAIN) $(LIBS.reader)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_LDFLAGS) $(FUZZ_LINK) $(if $(FUZZ_MAIN),,-fsanitize=fuzzer) -o $@ $^ $(EXT.reader)

fuzz:
	$(Q)tests/setup fuzz
	$(Q)$(MAKE) --no-print-directory FLAVOUR=fuzz CC=clang-14 fuzz-run
fuzz-smoke: setup
	$(Q)$(MAKE) --no-print-directory FLAVOUR=asan fuzz-replay
fuzz-run: $(FUZZ)
	$(Q)tests/fuzz/run $(B)
fuzz-replay: $(FUZZ)
	$(Q)tests/fuzz/run --replay $(B)

# ---- matrix: the integration tests on PostgreSQL 14 to 18 ----

#   make matrix     integration tests on every PostgreSQL; MAJORS="14 18" chooses
.PHONY: matrix
matrix: setup
	$(Q)$(MAKE) --no-print-directory all $(B)/damage
	$(Q)TIDEMARK=$(abspath $(B)/tidemark) tests/matrix

# ---- measurements: ratios to what limits it and to native replication, tests/bench ----
#   make bench      BENCH_SCALE=0.05 for fewer rows, BENCH_ONLY="copy large", BENCH_ROUNDS=5

BENCH := $(addprefix $(B)/bench/,load look)
.PHONY: bench
$(B)/bench/load: $(addprefix $(B)/obj/tests/bench/,load.o times.o)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_LDFLAGS) -o $@ $^ -lpq
$(B)/bench/look: $(addprefix $(B)/obj/tests/bench/,look.o times.o) $(LIBS.state)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_LDFLAGS) -o $@ $^ $(EXT.state)
bench: setup
	$(Q)$(MAKE) --no-print-directory all $(BENCH)
	$(Q)TIDEMARK=$(abspath $(B)/tidemark) BENCH=$(abspath $(B)/bench) tests/bench/run.py $(abspath $(B)/bench.json)

# ---- the tree ----

C_FILES := $(wildcard $(addsuffix /*.[ch],$(FOLDERS) tests/unit tests/integration tests/sim tests/cli tests/faults tests/fuzz tests/bench))
fmt:
	clang-format-14 -i $(C_FILES)
fmt-check:
	clang-format-14 --dry-run -Werror $(C_FILES)

PREFIX ?= /usr/local
install: all
	install -D -m 755 $(B)/tidemark $(DESTDIR)$(PREFIX)/bin/tidemark
	install -D -m 644 $(B)/libtidemark.a $(DESTDIR)$(PREFIX)/lib/libtidemark.a
	install -D -m 644 state/tidemark.h $(DESTDIR)$(PREFIX)/include/tidemark.h
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/tidemark $(DESTDIR)$(PREFIX)/lib/libtidemark.a $(DESTDIR)$(PREFIX)/include/tidemark.h

help:
	@sed -n 's/^#   //p' $(firstword $(MAKEFILE_LIST))

clean:
	rm -rf build

.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
