# The Java package. Included by the Makefile.
#
# Its jar has the classes, the JNI library and the engine's shared library, which must lie beside it:
# the JNI library finds it there. scripts/test_java.sh tests the jar.

java_root := bindings/java/src/main
java_sources := $(sort $(wildcard $(java_root)/java/*.java $(java_root)/java/*/*/*.java))
jni_sources := $(sort $(wildcard $(java_root)/c/*.c))
jni_files := $(jni_sources) $(sort $(wildcard $(java_root)/c/*.h))
java_build := $(BUILD)/java
# The folder that NativeLibrary.java looks into.
jni_folder := $(java_build)/classes/race/engine/native/linux-x86_64
JAR := $(dir $(LIBRARY))engine_race-$(VERSION).jar
# The JDK of the compiler: its headers must fit what `javac -h` writes.
jdk = $(shell dirname "$$(dirname "$$(readlink -f "$$(command -v javac)")")")

.PHONY: java jar
java:  ## lib/engine_race-VERSION.jar, the Java package with its library
	scripts/setup.sh java
	+$(submake) jar
jar: $(JAR)

# All classes are compiled at once: a class that is gone may not remain. CI tells warnings as errors.
$(java_build)/classes.made: $(java_sources) bindings/java/java.mk
	@mkdir -p $(java_build)
	@echo "$(call step,compile bindings/java ($(FLAVOUR)))"
	$(quiet)rm -rf $(java_build)/classes $(java_build)/headers
	$(quiet)javac --release 17 -encoding UTF-8 -Xlint:all $(if $(WERROR),-Werror) -d $(java_build)/classes \
	  -h $(java_build)/headers $(java_sources)
	@touch $@

# JNI gives each function a class that it does not need.
$(java_build)/libengine_race_jni.so: $(jni_files) include/engine_race_c.h \
    $(java_build)/classes.made $(SHARED) $(BUILD)/flags.txt
	@echo "$(call step,link $@)"
	$(quiet)$(CXX) -std=c99 -D_POSIX_C_SOURCE=200809L -O2 -g1 -fPIC -fvisibility=hidden -Wall -Wextra \
	  -Wno-unused-parameter $(strict_flags) -Iinclude -I$(java_build)/headers -I$(jdk)/include \
	  -I$(jdk)/include/linux -pthread -shared $(LDFLAGS) -Wl,-z,defs -Wl,-rpath,'$$ORIGIN' $(patsubst %,-x c %,$(jni_sources)) \
	  -x none $(SHARED) -o $@

$(JAR): $(java_build)/libengine_race_jni.so LICENSE scripts/package/copyright
	@echo "$(call step,pack $@)"
	$(quiet)mkdir -p $(jni_folder) $(java_build)/classes/META-INF
	$(quiet)cp $(SHARED) $(jni_folder)/$(SONAME)
	$(quiet)objcopy --strip-unneeded $(java_build)/libengine_race_jni.so $(jni_folder)/libengine_race_jni.so
	$(quiet)cp LICENSE $(java_build)/classes/META-INF/LICENSE
	$(quiet)cp scripts/package/copyright $(java_build)/classes/META-INF/LICENSE.third-party
	$(quiet)printf 'Implementation-Title: engine_race\nImplementation-Version: $(VERSION)\n' > $(java_build)/manifest
	$(quiet)rm -f $@ && jar --create --file $@ --manifest $(java_build)/manifest --module-version $(VERSION) \
	  -C $(java_build)/classes .
