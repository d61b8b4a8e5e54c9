/* nvidia-smi of a sandbox node, linked with the mock NVML into one static file so that any container can run it.
 * Forms: (none) | -L | --query-gpu=FIELDS --format=csv[,noheader][,nounits] | --query-compute-apps=FIELDS --format=...
 *        | -q [-x] | topo -m, each but the last with -i INDEX|UUID|BUS. Exit codes as in the vendor's manual page. */
#define _GNU_SOURCE
#include "smi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB (1ULL << 20)
#define MAX_FIELDS 64

static const char *wanted; /* -i: one GPU only */
int status;

static device *open_gpu(u32 index) {
  device *d = NULL;
  int code = nvmlDeviceGetHandleByIndex_v2(index, &d);
  if (code == NVML_SUCCESS) return d;
  printf("Unable to determine the device handle for GPU%u: %s\n", index, nvmlErrorString(code));
  status = code == NVML_GPU_IS_LOST ? EXIT_LOST : code;
  return NULL;
}

static int matches(u32 index, device *d) {
  char text[96];
  pci_info pci;
  if (!wanted) return 1;
  snprintf(text, sizeof text, "%u", index);
  if (!strcmp(text, wanted)) return 1;
  if (!nvmlDeviceGetUUID(d, text, sizeof text) && !strcmp(text, wanted)) return 1;
  return !nvmlDeviceGetPciInfo_v3(d, &pci) && (!strcasecmp(pci.bus_id, wanted) || !strcasecmp(pci.legacy_id, wanted));
}

typedef void visitor(u32 index, device *d, const void *context);

static void each_gpu(visitor *visit, const void *context) {
  u32 count = 0;
  int seen = 0;
  nvmlDeviceGetCount_v2(&count);
  for (u32 i = 0; i < count; i++) {
    if (wanted && strlen(wanted) < 3 && (u32)atoi(wanted) != i) continue; /* an index: leave the others alone */
    device *d = open_gpu(i);
    if (!d || !matches(i, d)) continue;
    seen = 1;
    visit(i, d, context);
  }
  if (!seen && !status) {
    puts("No devices were found");
    status = EXIT_NO_DEVICE;
  }
}

/* ---- csv queries ------------------------------------------------------------------------------------------------------- */

typedef struct { const field *fields[MAX_FIELDS]; int count, header, units; } query;

static const field *field_named(const char *name) {
  for (int i = 0; i < gpu_field_count; i++)
    if (!strcmp(gpu_fields[i].name, name)) return &gpu_fields[i];
  return NULL;
}

static void visit_csv(u32 index, device *d, const void *context) {
  const query *q = context;
  char text[512];
  for (int i = 0; i < q->count; i++) {
    text_of(q->fields[i], index, d, q->units, text, sizeof text);
    printf("%s%s", i ? ", " : "", text);
  }
  putchar('\n');
}

static void bad_field(const char *name) {
  printf("Field \"%s\" is not a valid field to query.\n\n", name);
  exit(EXIT_BAD_ARGUMENT);
}

static void query_gpus(char *names, int header, int units) {
  query q = {.header = header, .units = units};
  char *rest;
  for (char *name = strtok_r(names, ", ", &rest); name && q.count < MAX_FIELDS; name = strtok_r(NULL, ", ", &rest)) {
    const field *f = field_named(name);
    if (!f) bad_field(name);
    q.fields[q.count++] = f;
  }
  for (int i = 0; header && i < q.count; i++) {
    const char *unit = units ? q.fields[i]->unit : "";
    printf("%s%s%s%s%s", i ? ", " : "", q.fields[i]->name, *unit ? " [" : "", unit, *unit ? "]" : "");
  }
  if (header) putchar('\n');
  each_gpu(visit_csv, &q);
}

static const char *const app_fields[] = {"pid", "process_name", "name", "used_memory", "used_gpu_memory", "gpu_uuid",
                                         "gpu_name", "gpu_bus_id", NULL};
typedef struct { char *names[MAX_FIELDS]; int count, units; } app_query;

static void process_name(u32 pid, char *out, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
  FILE *file = fopen(path, "re");
  size_t got = file ? fread(out, 1, size - 1, file) : 0;
  if (file) fclose(file);
  out[got] = 0; /* the arguments follow the first NUL */
  if (!*out) snprintf(out, size, "[Not Found]");
}

static void app_text(const char *name, device *d, const process_info *p, int units, char *out, size_t size) {
  if (!strcmp(name, "pid")) snprintf(out, size, "%u", p->pid);
  else if (!strcmp(name, "process_name") || !strcmp(name, "name")) process_name(p->pid, out, size);
  else if (!strncmp(name, "used_", 5)) snprintf(out, size, "%llu%s", p->used / MIB, units ? " MiB" : "");
  else if (!strcmp(name, "gpu_uuid")) f_uuid(0, d, out, size);
  else if (!strcmp(name, "gpu_name")) f_name(0, d, out, size);
  else f_bus(0, d, out, size);
}

static void visit_apps(u32 index, device *d, const void *context) {
  const app_query *q = context;
  process_info list[64];
  u32 count = 64;
  char text[512];
  (void)index;
  if (nvmlDeviceGetComputeRunningProcesses_v3(d, &count, list)) return;
  for (u32 p = 0; p < count; p++) {
    for (int i = 0; i < q->count; i++) {
      app_text(q->names[i], d, &list[p], q->units, text, sizeof text);
      printf("%s%s", i ? ", " : "", text);
    }
    putchar('\n');
  }
}

static void query_apps(char *names, int header, int units) {
  app_query q = {.units = units};
  char *rest;
  for (char *name = strtok_r(names, ", ", &rest); name && q.count < MAX_FIELDS; name = strtok_r(NULL, ", ", &rest)) {
    const char *const *known = app_fields;
    while (*known && strcmp(*known, name)) known++;
    if (!*known) bad_field(name);
    q.names[q.count++] = name;
  }
  for (int i = 0; header && i < q.count; i++)
    printf("%s%s%s", i ? ", " : "", q.names[i], units && !strncmp(q.names[i], "used_", 5) ? " [MiB]" : "");
  if (header) putchar('\n');
  each_gpu(visit_apps, &q);
}

/* ---- lists for people and XML ------------------------------------------------------------------------------------------ */

static void visit_list(u32 index, device *d, const void *context) {
  char name[96], uuid[96];
  (void)context;
  if (!f_name(index, d, name, sizeof name) && !f_uuid(index, d, uuid, sizeof uuid))
    printf("GPU %u: %s (UUID: %s)\n", index, name, uuid);
}

static void visit_details(u32 index, device *d, const void *context) {
  char text[512];
  int xml = context != NULL;
  pci_info pci;
  if (nvmlDeviceGetPciInfo_v3(d, &pci)) return;
  printf(xml ? "\t<gpu id=\"%s\">\n" : "GPU %s\n", pci.bus_id);
  for (int i = 0; i < gpu_field_count; i++) {
    const field *f = &gpu_fields[i];
    if (i && !strcmp(f->tag, gpu_fields[i - 1].tag)) continue; /* a second name of the same value */
    text_of(f, index, d, 1, text, sizeof text);
    if (xml) printf("\t\t<%s>%s</%s>\n", f->tag, text, f->tag);
    else printf("    %-38s: %s\n", f->name, text);
  }
  if (xml) puts("\t</gpu>");
}

static void details(int xml) {
  char driver[64];
  int cuda = 0;
  nvmlSystemGetDriverVersion(driver, sizeof driver);
  nvmlSystemGetCudaDriverVersion(&cuda);
  if (xml)
    printf("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n<nvidia_smi_log>\n"
           "\t<driver_version>%s</driver_version>\n\t<cuda_version>%d.%d</cuda_version>\n",
           driver, cuda / 1000, cuda % 1000 / 10);
  each_gpu(visit_details, xml ? "xml" : NULL);
  if (xml) puts("</nvidia_smi_log>");
}

static void visit_row(u32 index, device *d, const void *context) {
  char name[96], bus[32], temp[16], power[16], used[16], total[16], util[16];
  (void)context;
  f_name(index, d, name, sizeof name), f_bus(index, d, bus, sizeof bus), f_temp(index, d, temp, sizeof temp);
  f_power(index, d, power, sizeof power), f_used(index, d, used, sizeof used), f_total(index, d, total, sizeof total);
  f_util(index, d, util, sizeof util);
  printf("| %3u  %-24s %s | %3sC %7sW | %6sMiB / %6sMiB | %3s%% |\n", index, name, bus, temp, power, used, total, util);
}

static void summary(void) {
  char driver[64], when[64];
  int cuda = 0;
  time_t now = time(NULL);
  nvmlSystemGetDriverVersion(driver, sizeof driver);
  nvmlSystemGetCudaDriverVersion(&cuda);
  strftime(when, sizeof when, "%c", localtime(&now));
  printf("%s\nNVIDIA-SMI %s (Berth sandbox)    Driver Version: %s    CUDA Version: %d.%d\n", when, driver, driver,
         cuda / 1000, cuda % 1000 / 10);
  each_gpu(visit_row, NULL);
}

static void topology(void) {
  u32 count = 0;
  device *open[64];
  nvmlDeviceGetCount_v2(&count);
  for (u32 i = 0; i < count; i++) printf("\tGPU%u", i);
  puts("\tNUMA Affinity");
  for (u32 i = 0; i < count; i++) open[i] = open_gpu(i);
  for (u32 a = 0; a < count; a++) {
    if (!open[a]) continue;
    printf("GPU%u", a);
    for (u32 b = 0; b < count; b++) {
      int links = 0, shared = 0;
      u32 active;
      for (u32 l = 0; open[b] && l < 18; l++) links += !nvmlDeviceGetNvLinkState(open[a], l, &active) && active;
      if (a == b) printf("\t X ");
      else if (!open[b]) printf("\tN/A");
      else if (links) printf("\tNV%d", links);
      else printf("\t%s", !nvmlDeviceGetTopologyCommonAncestor(open[a], open[b], &shared) && shared == 50 ? "SYS" : "NODE");
    }
    u32 numa = 0;
    nvmlDeviceGetNumaNodeId(open[a], &numa);
    printf("\t%u\n", numa);
  }
}

/* ---- command line ------------------------------------------------------------------------------------------------------ */

static const char *value_of(const char *argument, const char *option) {
  size_t length = strlen(option);
  return strncmp(argument, option, length) ? NULL : argument + length;
}

static int usage(const char *argument) {
  printf("Invalid combination of input arguments: \"%s\". Please run 'nvidia-smi -h' for help.\n", argument);
  return EXIT_BAD_ARGUMENT;
}

int main(int argc, char **argv) {
  const char *gpus = NULL, *apps = NULL, *format = NULL, *value;
  int list = 0, long_form = 0, xml = 0, topo = 0;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "-L") || !strcmp(argv[i], "--list-gpus")) list = 1;
    else if (!strcmp(argv[i], "-q") || !strcmp(argv[i], "--query")) long_form = 1;
    else if (!strcmp(argv[i], "-x") || !strcmp(argv[i], "--xml-format")) xml = 1;
    else if ((!strcmp(argv[i], "-i") || !strcmp(argv[i], "--id")) && i + 1 < argc) wanted = argv[++i];
    else if ((value = value_of(argv[i], "--id="))) wanted = value;
    else if ((value = value_of(argv[i], "--query-gpu="))) gpus = value;
    else if ((value = value_of(argv[i], "--query-compute-apps="))) apps = value;
    else if ((value = value_of(argv[i], "--format="))) format = value;
    else if (!strcmp(argv[i], "topo") && i + 1 < argc && !strcmp(argv[i + 1], "-m")) topo = 1, i++;
    else if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
      return puts("nvidia-smi of a Berth sandbox node: -L | --query-gpu=... --format=csv[,noheader][,nounits] | "
                  "--query-compute-apps=... | -q [-x] | topo -m | -i GPU"), 0;
    else return usage(argv[i]);
  }
  if ((gpus || apps) && (!format || strncmp(format, "csv", 3))) return usage("--format=csv is missing");
  int code = nvmlInit_v2();
  if (code == NVML_DRIVER_NOT_LOADED)
    return puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the "
                "latest NVIDIA driver is installed and running.\n"), EXIT_DRIVER;
  if (code) return printf("Failed to initialize NVML: %s\n", nvmlErrorString(code)), code;
  int header = !(format && strstr(format, "noheader")), units = !(format && strstr(format, "nounits"));
  if (gpus) query_gpus(strdup(gpus), header, units);
  else if (apps) query_apps(strdup(apps), header, units);
  else if (list) each_gpu(visit_list, NULL);
  else if (long_form) details(xml);
  else if (topo) topology();
  else summary();
  return status;
}
