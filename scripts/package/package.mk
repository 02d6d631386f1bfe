# The shared library, installing, and packages. Included by the Makefile.

version_part = $(shell sed -n 's/^\#define ENGINE_RACE_VERSION_$(1) //p' include/engine_race_c.h)
VERSION := $(call version_part,MAJOR).$(call version_part,MINOR).$(call version_part,PATCH)
SONAME := libengine_race.so.$(firstword $(subst ., ,$(VERSION)))
SHARED := $(dir $(LIBRARY))libengine_race.so.$(VERSION)

# It shows the C API alone, and has the C++ runtime in it: one file runs on every system whose C
# library is as new as this one's. Threads of a store may outlive dlclose, so it is never unloaded.
# Its debug information lies beside it, where debuggers look. It is linked elsewhere and then moved,
# because another make may link it too, and programs may have the old one mapped.
.PHONY: shared
shared: $(SHARED)  ## lib/libengine_race.so.VERSION, and its debug information
$(SHARED): $(LIBRARY) include/engine_race_c.h scripts/package/exported.map scripts/package/package.mk
	@echo "$(call step,link $@)"
	$(quiet)work=$$(mktemp -d $(@D)/link.XXXXXX) && trap 'rm -rf "$$work"' EXIT && \
	$(CXX) -shared $(LDFLAGS) -static-libstdc++ -static-libgcc -Wl,-soname,$(SONAME) -Wl,-z,defs \
	  -Wl,--build-id -Wl,-z,nodelete -Wl,--gc-sections -Wl,--version-script=scripts/package/exported.map $(BUILD)/libengine.o $(LDLIBS) -o $$work/whole && \
	objcopy --only-keep-debug --compress-debug-sections $$work/whole $$work/$(@F).debug && \
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
# All headers that programs include. `make check` holds that they include no others of the project,
# and that programs without exceptions and RTTI can include them.
contest_headers := include/engine.h include/polar_string.h
c_header := include/engine_race_c.h
cxx_headers := $(addprefix engine_race/,engine_race.h store.h store_stats.h stats_text.h scan/iterator.h scan/snapshot.h \
                 $(addprefix base/,copy_options.h key_range.h latency_histogram.h options.h pinned_view.h progress.h status.h \
                                   verify_report.h write_batch.h))
public_headers := $(contest_headers) $(c_header) $(cxx_headers)
to_libdir := $(DESTDIR)$(LIBDIR)
to_includedir := $(DESTDIR)$(INCLUDEDIR)

to_docdir := $(DESTDIR)$(PREFIX)/share/doc/engine_race
install_licences = install -D -m 644 -t $(to_docdir) scripts/package/copyright LICENSE

.PHONY: install
install: $(LIBRARY) $(SHARED)  ## headers, libraries, files for pkg-config and CMake; DESTDIR= PREFIX=/usr/local
	install -d $(to_libdir)/pkgconfig $(to_libdir)/cmake/engine_race
	install -D -m 644 -t $(to_includedir) $(c_header)
	install -D -m 644 -t $(to_includedir)/engine_race/contest/include $(contest_headers)
	for header in $(cxx_headers); do \
	  install -D -m 644 $$header $(to_includedir)/$$header || exit 1; \
	done
	$(install_licences)
	install -m 644 $(LIBRARY) $(to_libdir)/libengine_race.a
	install -D -m 644 $(DEBUG_LIBRARY) $(to_libdir)/debug/libengine_race.a
	install -m 755 $(SHARED) $(to_libdir)/
	install -D -m 644 -t $(to_libdir)/.debug $(SHARED).debug
	ln -sf $(notdir $(SHARED)) $(to_libdir)/$(SONAME)
	ln -sf $(SONAME) $(to_libdir)/libengine_race.so
	for file in pkgconfig/engine_race.pc pkgconfig/engine_race-static.pc \
	            cmake/engine_race/engine_race-config.cmake cmake/engine_race/engine_race-config-version.cmake; do \
	  $(fill_in) scripts/package/$$(basename $$file).in > $(to_libdir)/$$file && \
	  chmod 644 $(to_libdir)/$$file || exit 1; \
	done

# Programs for people who have a store, with a page of the manual for each. Their names say whose
# they are.
to_bindir := $(DESTDIR)$(PREFIX)/bin
to_mandir := $(DESTDIR)$(PREFIX)/share/man/man1
# Installs the programs $(2) and strips $(1) of them: those that are no scripts.
define install_with_pages
	$(install_licences)
	install -d $(to_bindir) $(to_mandir)
	scripts/package/make_man.sh $(VERSION) $(BUILD)/man $(2)
	for name in $(notdir $(2)); do \
	  install -m 755 $(BIN)/$$name $(to_bindir)/engine-race-$$name && \
	  install -m 644 $(BUILD)/man/engine-race-$$name.1 $(to_mandir)/ || exit 1; \
	done
	cd $(to_bindir) && strip --remove-section=.comment $(patsubst $(BIN)/%,engine-race-%,$(1))
endef
installed_programs := $(addprefix $(BIN)/,store bench race numa)
.PHONY: install-programs
install-programs: $(installed_programs) $(BIN)/report  ## engine-race-store, -bench, -race, -numa, -report, man pages
	$(call install_with_pages,$(installed_programs),$^)

# Apart, because it needs the libraries of all the peers that it was built with.
.PHONY: install-compare
install-compare: $(BIN)/compare  ## engine-race-compare and its man page
	$(call install_with_pages,$^,$^)

# Removes files, and directories that are the engine's own. Others may have files in the rest.
own_names := $(notdir $(installed_programs)) report compare
.PHONY: uninstall
uninstall:  ## removes what the install targets have installed; DESTDIR= PREFIX=/usr/local
	rm -rf $(to_includedir)/engine_race $(to_libdir)/cmake/engine_race $(to_docdir)
	rm -f $(to_includedir)/engine_race_c.h $(addprefix $(to_libdir)/pkgconfig/engine_race,.pc -static.pc) \
	  $(to_libdir)/libengine_race.a $(to_libdir)/debug/libengine_race.a \
	  $(to_libdir)/libengine_race.so $(to_libdir)/libengine_race.so.[0-9]* $(to_libdir)/.debug/libengine_race.so.[0-9]* \
	  $(own_names:%=$(to_bindir)/engine-race-%) $(own_names:%=$(to_mandir)/engine-race-%.1)

.PHONY: deb
deb:  ## Debian packages, in out/
	scripts/setup.sh deb
	+$(submake) $(LIBRARY) $(SHARED) $(installed_programs) $(BIN)/report
	scripts/package/make_deb.sh $(VERSION)

.PHONY: wheel
wheel:  ## the Python package with its library, in out/
	scripts/setup.sh wheel
	+$(submake) $(SHARED)
	scripts/package/make_wheel.sh
