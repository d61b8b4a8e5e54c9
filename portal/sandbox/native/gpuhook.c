/* OCI hook named in the node's CDI file: `gpuhook start|stop MINOR`, the container's state as JSON on stdin.
 * It notes which container holds the GPU, for the mock NVML; it never fails a container. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int id_of(const char *json, char *out, size_t size) {
  const char *at = strstr(json, "\"id\":\"");
  if (!at) return 0;
  at += 6;
  size_t length = strcspn(at, "\"");
  if (length == 0 || length >= size || memchr(at, '/', length)) return 0;
  memcpy(out, at, length);
  out[length] = 0;
  return 1;
}

int main(int argc, char **argv) {
  char json[65536], id[128], folder[64], path[256];
  if (argc != 3) return 0;
  size_t got = fread(json, 1, sizeof json - 1, stdin);
  json[got] = 0;
  if (!id_of(json, id, sizeof id)) return 0;
  snprintf(folder, sizeof folder, "/run/mock-nvml/busy/%d", atoi(argv[2]));
  snprintf(path, sizeof path, "%s/%s", folder, id);
  if (!strcmp(argv[1], "stop")) {
    unlink(path);
    return 0;
  }
  const char *pid = strstr(json, "\"pid\":");
  mkdir("/run/mock-nvml/busy", 0755);
  mkdir(folder, 0755);
  FILE *file = pid ? fopen(path, "we") : NULL;
  if (!file) return 0;
  fprintf(file, "%d\n", atoi(pid + 6));
  fclose(file);
  return 0;
}
