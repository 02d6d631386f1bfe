# The shared library, installing, and packages. Included by the Makefile.

version_part = $(shell sed -n 's/^\#define ENGINE_RACE_VERSION_$(1) //p' include/engine_race_c.h)
VERSION := $(call version_part,MAJOR).$(call version_part,MINOR).$(call version_part,PATCH)
SONAME := libengine_race.so.$(firstword $(subst ., ,$(VERSION)))
SHARED := $(dir $(LIBRARY))libengine_race.so.$(VERSION)

# It shows the C API alone, and has the C++ runtime in it: one file runs on every system whose C
# library is as new as this one's. Threads of a store may outlive dlclose, so it is never unloaded.
# Its debug information lies beside it. It is linked elsewhere and then moved, because another make
# may link it too, and programs may have the old one mapped.
.PHONY: shared
shared: $(SHARED)  ## lib/libengine_race.so.VERSION, and its debug information
$(SHARED): $(LIBRARY) include/engine_race_c.h scripts/package/exported.map scripts/package/package.mk
	@echo "$(call step,link $@)"
	$(quiet)work=$$(mktemp -d $(@D)/link.XXXXXX) && trap 'rm -rf "$$work"' EXIT && \
	$(CXX) -shared $(LDFLAGS) -static-libstdc++ -static-libgcc -Wl,-soname,$(SONAME) -Wl,-z,defs \
	  -Wl,-z,nodelete -Wl,--gc-sections -Wl,--version-script=scripts/package/exported.map $(BUILD)/libengine.o $(LDLIBS) -o $$work/whole && \
	objcopy --only-keep-debug $$work/whole $$work/$(@F).debug && \
	objcopy --strip-unneeded --remove-section=.comment --add-gnu-debuglink=$$work/$(@F).debug $$work/whole $$work/$(@F) && \
	chmod 755 $$work/$(@F) && ln -s $(@F) $$work/$(SONAME) && ln -s $(SONAME) $$work/libengine_race.so && \
	mv -fT $$work/$(@F).debug $@.debug && mv -fT $$work/$(SONAME) $(@D)/$(SONAME) && \
	mv -fT $$work/libengine_race.so $(@D)/libengine_race.so && mv -fT $$work/$(@F) $@

# DESTDIR comes before everything and is named nowhere. The tree can be moved: CMake's files name
# places relative to their own, and pkg-config has --define-prefix.
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
below_prefix = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))
from_cmake_to = $(shell realpath -ms --relative-to=$(LIBDIR)/cmake/engine_race $(1))
fill_in = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@SONAME@|$(SONAME)|g' \
              -e 's|@LIBDIR@|$(call below_prefix,$(LIBDIR))|g' \
              -e 's|@INCLUDEDIR@|$(call below_prefix,$(INCLUDEDIR))|g' \
              -e 's|@LIBDIR_FROM_CMAKE@|$(call from_cmake_to,$(LIBDIR))|g' \
              -e 's|@INCLUDEDIR_FROM_CMAKE@|$(call from_cmake_to,$(INCLUDEDIR))|g'
cxx_headers = $(sort $(filter engine_race/%.h,$(shell $(CXX) -std=c++20 -I. -MM -x c++ engine_race/store.h))) \
              engine_race/engine_race.h engine_race/stats_text.h
to_libdir := $(DESTDIR)$(LIBDIR)
to_includedir := $(DESTDIR)$(INCLUDEDIR)

.PHONY: install
install: $(LIBRARY) $(SHARED)  ## headers, libraries, files for pkg-config and CMake; DESTDIR= PREFIX=/usr/local
	install -d $(to_libdir)/pkgconfig $(to_libdir)/cmake/engine_race
	install -D -m 644 -t $(to_includedir) include/engine_race_c.h
	install -D -m 644 -t $(to_includedir)/engine_race/contest/include include/engine.h include/polar_string.h
	for header in $(cxx_headers); do \
	  install -D -m 644 $$header $(to_includedir)/$$header || exit 1; \
	done
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/engine_race scripts/package/copyright LICENSE
	objcopy --strip-debug --remove-section=.comment $(LIBRARY) $(to_libdir)/libengine_race.a
	chmod 644 $(to_libdir)/libengine_race.a
	install -m 755 $(SHARED) $(to_libdir)/
	ln -sf $(notdir $(SHARED)) $(to_libdir)/$(SONAME)
	ln -sf $(SONAME) $(to_libdir)/libengine_race.so
	for file in pkgconfig/engine_race.pc pkgconfig/engine_race-static.pc \
	            cmake/engine_race/engine_race-config.cmake cmake/engine_race/engine_race-config-version.cmake; do \
	  $(fill_in) scripts/package/$$(basename $$file).in > $(to_libdir)/$$file && \
	  chmod 644 $(to_libdir)/$$file || exit 1; \
	done

# Programs for people who have a store, with a page of the manual for each. Their names say whose
# they are.
installed_programs := $(addprefix $(BIN)/,store bench race numa)
.PHONY: install-programs
install-programs: $(installed_programs) $(BIN)/report  ## engine-race-store, -bench, -race, -numa, -report, man pages
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1
	for program in $^; do \
	  install -m 755 $$program $(DESTDIR)$(PREFIX)/bin/engine-race-$$(basename $$program) || exit 1; \
	done
	cd $(DESTDIR)$(PREFIX)/bin && strip --remove-section=.comment $(installed_programs:$(BIN)/%=engine-race-%)
	scripts/package/make_man.sh $(VERSION) $(BUILD)/man $^
	install -m 644 $(BUILD)/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/

.PHONY: deb
deb:  ## Debian packages, in out/
	scripts/setup.sh deb
	+$(submake) $(LIBRARY) $(SHARED) $(installed_programs) $(BIN)/report
	scripts/package/make_deb.sh $(VERSION)

.PHONY: wheel
wheel:  ## the Python package with its library, in out/
	scripts/setup.sh python
	+$(submake) $(SHARED)
	scripts/package/make_wheel.sh
