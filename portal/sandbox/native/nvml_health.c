/* libnvidia-ml.so.1 of a sandbox node, second part: memory errors, NVLink, MIG, processes, events. */
#define _GNU_SOURCE
#include "state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- memory errors ------------------------------------------------------------------------------------------------ */

API int nvmlDeviceGetEccMode(device *d, u32 *current, u32 *pending) {
  ENTER(d);
  NEEDS(d, "ecc");
  *current = (u32)gpu_number(d->minor, "ecc", 1);
  *pending = (u32)gpu_number(d->minor, "ecc_pending", *current);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetTotalEccErrors(device *d, int type, int counter, u64 *count) {
  ENTER(d);
  NEEDS(d, "ecc");
  const char *key = type ? (counter ? "ecc_dbe_agg" : "ecc_dbe_vol") : (counter ? "ecc_sbe_agg" : "ecc_sbe_vol");
  *count = (u64)gpu_number(d->minor, key, 0);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetMemoryErrorCounter(device *d, int type, int counter, int location, u64 *count) {
  (void)location;
  return nvmlDeviceGetTotalEccErrors(d, type, counter, count);
}

API int nvmlDeviceGetRemappedRows(device *d, u32 *correctable, u32 *uncorrectable, u32 *pending, u32 *failure) {
  ENTER(d);
  NEEDS(d, "remap");
  *correctable = (u32)gpu_number(d->minor, "remap_corr", 0);
  *uncorrectable = (u32)gpu_number(d->minor, "remap_unc", 0);
  *pending = (u32)gpu_number(d->minor, "remap_pending", 0);
  *failure = (u32)gpu_number(d->minor, "remap_failure", 0);
  return NVML_SUCCESS;
}

/* ---- NVLink and topology -------------------------------------------------------------------------------------------- */

static int links_of(int minor) { return (int)gpu_number(minor, "nvlink_links", MAX_LINKS); }

API int nvmlDeviceGetNvLinkState(device *d, u32 link, u32 *active) {
  char down[256], word[16];
  ENTER(d);
  NEEDS(d, "nvlink");
  if (link >= (u32)links_of(d->minor)) return NVML_INVALID_ARGUMENT;
  snprintf(word, sizeof word, "%u", link);
  *active = !(gpu_find(d->minor, "nvlink_down", down, sizeof down) && list_has(down, word));
  return NVML_SUCCESS;
}

API int nvmlDeviceGetNvLinkVersion(device *d, u32 link, u32 *version) {
  (void)link;
  ENTER(d);
  NEEDS(d, "nvlink");
  *version = 4;
  return NVML_SUCCESS;
}

API int nvmlDeviceGetNvLinkErrorCounter(device *d, u32 link, int counter, u64 *count) {
  (void)link, (void)counter;
  ENTER(d);
  NEEDS(d, "nvlink");
  *count = (u64)gpu_number(d->minor, "nvlink_err", 0);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetNvLinkRemotePciInfo_v2(device *d, u32 link, pci_info *pci) {
  ENTER(d);
  NEEDS(d, "nvlink");
  if (link >= (u32)links_of(d->minor)) return NVML_INVALID_ARGUMENT;
  memset(pci, 0, sizeof *pci);
  pci->bus = 0x05 + link % 4; /* four NVSwitches */
  pci->device_id = 0x22a310de;
  snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
  snprintf(pci->legacy_id, sizeof pci->legacy_id, "0000:%02X:00.0", pci->bus);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetNvLinkRemoteDeviceType(device *d, u32 link, int *type) {
  (void)link;
  ENTER(d);
  NEEDS(d, "nvlink");
  *type = 2; /* a switch */
  return NVML_SUCCESS;
}

API int nvmlDeviceGetTopologyCommonAncestor(device *a, device *b, int *level_out) {
  ENTER(a);
  ENTER(b);
  long long left = gpu_number(a->minor, "numa", a->minor / 4), right = gpu_number(b->minor, "numa", b->minor / 4);
  *level_out = a == b ? 0 : left != right ? 50 : 40; /* same board, system, node */
  return NVML_SUCCESS;
}

API int nvmlDeviceGetP2PStatus(device *a, device *b, int capability, int *status) {
  (void)capability;
  ENTER(a);
  ENTER(b);
  *status = 0;
  return NVML_SUCCESS;
}

API int nvmlDeviceGetMigMode(device *d, u32 *current, u32 *pending) {
  ENTER(d);
  NEEDS(d, "mig");
  *current = (u32)gpu_number(d->minor, "mig", 0);
  *pending = (u32)gpu_number(d->minor, "mig_pending", *current);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetMaxMigDeviceCount(device *d, u32 *count) {
  ENTER(d);
  *count = supported(d->minor, "mig") ? 7 : 0;
  return NVML_SUCCESS;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(device *d, u32 index, device **out) {
  (void)index, (void)out;
  ENTER(d);
  return NVML_NOT_FOUND;
}

/* ---- processes ---------------------------------------------------------------------------------------------------- */

API int nvmlDeviceGetComputeRunningProcesses_v3(device *d, u32 *count, process_info *out) {
  ENTER(d);
  u32 room = out ? *count : 0;
  *count = (u32)processes(d->minor, room, out);
  return *count > room ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static int no_processes(device *d, u32 *count) {
  ENTER(d);
  *count = 0;
  return NVML_SUCCESS;
}

API int nvmlDeviceGetGraphicsRunningProcesses_v3(device *d, u32 *count, process_info *out) {
  (void)out;
  return no_processes(d, count);
}

API int nvmlDeviceGetMPSComputeRunningProcesses_v3(device *d, u32 *count, process_info *out) {
  (void)out;
  return no_processes(d, count);
}

/* ---- events --------------------------------------------------------------------------------------------------------- */

typedef struct { long offset; u64 mask[MAX_GPUS]; } event_set;
enum { EVENT_DOUBLE_BIT_ECC = 2, EVENT_XID = 8 };

static FILE *open_events(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/events", state_dir());
  return fopen(path, "re");
}

API int nvmlEventSetCreate(event_set **out) {
  if (!initialised) return NVML_UNINITIALIZED;
  *out = calloc(1, sizeof **out);
  FILE *file = open_events();
  if (file) {
    fseek(file, 0, SEEK_END);
    (*out)->offset = ftell(file);
    fclose(file);
  }
  return NVML_SUCCESS;
}

API int nvmlEventSetFree(event_set *set) {
  free(set);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetSupportedEventTypes(device *d, u64 *types) {
  ENTER(d);
  *types = EVENT_DOUBLE_BIT_ECC | EVENT_XID | 0x1 | 0x10;
  return NVML_SUCCESS;
}

API int nvmlDeviceRegisterEvents(device *d, u64 types, event_set *set) {
  ENTER(d);
  NEEDS(d, "events");
  set->mask[d->minor] |= types;
  return NVML_SUCCESS;
}

static int next_event(event_set *set, event_data *out) {
  char line[128];
  FILE *file = open_events();
  if (!file) return 0;
  fseek(file, set->offset, SEEK_SET);
  while (fgets(line, sizeof line, file) && strchr(line, '\n')) {
    int minor;
    u64 data, type = 0;
    set->offset = ftell(file);
    if (sscanf(line, "xid=%d:%llu", &minor, &data) == 2) type = EVENT_XID;
    else if (sscanf(line, "dbe=%d:%llu", &minor, &data) == 2) type = EVENT_DOUBLE_BIT_ECC;
    if (!type || minor < 0 || minor >= MAX_GPUS || !(set->mask[minor] & type)) continue;
    *out = (event_data){&devices[minor], type, data, ~0u, ~0u};
    fclose(file);
    return 1;
  }
  fclose(file);
  return 0;
}

API int nvmlEventSetWait_v2(event_set *set, event_data *out, u32 timeout_ms) {
  if (!initialised) return NVML_UNINITIALIZED;
  for (u32 waited = 0;; waited += 50) {
    load();
    if (next_event(set, out)) return NVML_SUCCESS;
    for (int i = 0; i < MAX_GPUS; i++) /* the real call fails once a registered GPU is gone */
      if (set->mask[i] && lost_code(i) == NVML_GPU_IS_LOST) return NVML_GPU_IS_LOST;
    if (waited >= timeout_ms) return NVML_TIMEOUT;
    usleep(50000);
  }
}
