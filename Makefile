# Tidemark. One makefile, one build directory for each flavour; adding a file registers it.
#
#   make            build/tidemark and build/libtidemark.a
#   make test       everything that runs in minutes, on servers it starts itself
#   make demo       watch it work against a throwaway PostgreSQL
#   make help       the other targets

FLAVOUR ?= release
B := build$(if $(filter-out release,$(FLAVOUR)),/$(FLAVOUR))
Q := $(if $(V),,@)
say = $(if $(V),,@echo "  $(1)  $(2)")

CC ?= cc
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual \
        -Wpointer-arith -Wundef -Wvla -Wformat=2 -Wimplicit-fallthrough $(if $(CI),-Werror)
OPT.release := -O2 -g
OPT.asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT.tsan := -O1 -g -fsanitize=thread -fno-omit-frame-pointer
OPT.cov := -O0 -g --coverage
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
EXT.reader := -lpq -luv -linih $(EXT.state)

UNIT := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/*_test.c))
SIM := $(patsubst tests/%.c,$(B)/%,$(filter tests/sim_%_main.c,$(wildcard tests/*.c)))

.PHONY: all help clean unit
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

help:
	@sed -n 's/^#   //p' $(firstword $(MAKEFILE_LIST))

clean:
	rm -rf build

.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
