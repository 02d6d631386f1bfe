package race.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Compiles and runs the snippets of docs/java.md, one after the other. */
class DocsTest {
  @TempDir Path directory;

  private List<String> snippets() throws IOException {
    Path page = Path.of(System.getProperty("engine_race.docs"), "java.md");
    Matcher blocks = Pattern.compile("(?s)```java\n(.*?)```").matcher(Files.readString(page));
    List<String> found = new ArrayList<>();
    while (blocks.find()) {
      found.add(blocks.group(1).replace("\"/tmp/", "\"" + directory + "/"));
    }
    return found;
  }

  @Test
  void everySnippetRuns() throws Exception {
    StringBuilder imports = new StringBuilder();
    StringBuilder body = new StringBuilder();
    List<String> snippets = snippets();
    assertTrue(snippets.size() >= 8);
    for (String snippet : snippets) {
      for (String line : snippet.split("\n")) {
        (line.startsWith("import ") ? imports : body).append(line).append('\n');
      }
    }
    Path source = directory.resolve("Snippets.java");
    Files.writeString(source, "import java.nio.*;\nimport java.nio.file.*;\nimport java.util.*;\n"
        + "import java.util.concurrent.*;\nimport java.util.stream.*;\n" + imports
        + "public class Snippets {\n"
        + "  static void serve(byte[] value) {\n"
        + "    if (value.length != 4096) throw new AssertionError();\n  }\n\n"
        + "  public static void run() throws Exception {\n" + body + "  }\n}\n");
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    assertEquals(0, compiler.run(null, System.out, System.out, "-d", directory.toString(), "-cp",
        System.getProperty("java.class.path"), source.toString()));
    try (URLClassLoader loader = new URLClassLoader(new URL[] {directory.toUri().toURL()})) {
      loader.loadClass("Snippets").getMethod("run").invoke(null);
    } catch (InvocationTargetException error) {
      throw new AssertionError("a snippet has failed", error.getCause());
    }
  }
}
