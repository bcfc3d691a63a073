/* A libnvidia-ml.so.1 for tests. Its answers stand in the text file named by FAKE_NVML, which is read again
 * whenever it has changed, so that a test can change the GPUs while the program runs. Lines:
 *   driver 580.95.05
 *   gpu name=H100 uuid=GPU-a total=81559 used=70000 reserved=500 gpu=87 mem=40 sm=1980 mclk=2619 maxsm=1980
 *       maxmclk=2619 temp=56 power=650000 limit=700000 reasons=0 thermal=0 powerviol=0 corrected=0
 *       uncorrected=0 rows=0 pages=0 mig=0 xid=0 procs=PID:MIB:SM,PID:MIB:SM        (one line)
 *   fail FUNCTION CODE [GPU]        that function answers CODE, of one GPU or of all
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { OK = 0, UNINIT = 1, INVAL = 2, NOSUPPORT = 3, NOTFOUND = 6, SMALL = 7, NODRIVER = 9, TIMEOUT = 10 };
typedef unsigned long long u64;
typedef struct { u64 total, free, used; } memory_t;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory2_t;
typedef struct { unsigned gpu, memory; } rates_t;
typedef struct { unsigned pid; u64 used; unsigned gi, ci; } process_t;
typedef struct { unsigned pid; u64 stamp; unsigned sm, mem, enc, dec; } share_t;
typedef struct { u64 reference, violation; } violation_t;
typedef struct { void *device; u64 type, data; unsigned gi, ci; } event_t;
typedef struct { char name[96], uuid[96], procs[1024]; u64 v[24]; } gpu_t;
typedef struct { char function[64]; int code, gpu; } fail_t;

static const char *KEYS[] = { "total", "used", "reserved", "gpu", "mem", "sm", "mclk", "maxsm", "maxmclk", "temp",
    "power", "limit", "reasons", "thermal", "powerviol", "corrected", "uncorrected", "rows", "pages", "mig", "xid" };
enum { TOTAL, USED, RESERVED, GPU, MEM, SM, MCLK, MAXSM, MAXMCLK, TEMP, POWER, LIMIT, REASONS, THERMAL, POWERVIOL,
    CORRECTED, UNCORRECTED, ROWS, PAGES, MIG, XID, COUNT };
static gpu_t gpus[16];
static fail_t fails[64];
static int ngpu, nfail, ready;
static u64 clock_us;
static char driver[80];
static struct stat last;
struct set { int gpu; u64 told; };
static struct set sets[16];
static int nset;

static void parse_gpu(gpu_t *g, char *line) {
    char *save, *word = strtok_r(line, " ", &save);
    memset(g, 0, sizeof *g);
    for (word = strtok_r(NULL, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *value = strchr(word, '=');
        if (!value) continue;
        *value++ = 0;
        if (!strcmp(word, "name")) {
            snprintf(g->name, sizeof g->name, "%s", value);
            for (char *c = g->name; *c; c++) if (*c == '_') *c = ' ';
        }
        if (!strcmp(word, "uuid")) snprintf(g->uuid, sizeof g->uuid, "%s", value);
        if (!strcmp(word, "procs")) snprintf(g->procs, sizeof g->procs, "%s", value);
        for (int k = 0; k < COUNT; k++) if (!strcmp(word, KEYS[k])) g->v[k] = strtoull(value, NULL, 0);
    }
}

static int load(void) {
    const char *path = getenv("FAKE_NVML");
    struct stat now;
    if (!path || stat(path, &now)) return NODRIVER;
    clock_us += 1000;
    if (now.st_ino == last.st_ino && now.st_size == last.st_size && now.st_mtim.tv_sec == last.st_mtim.tv_sec
        && now.st_mtim.tv_nsec == last.st_mtim.tv_nsec) return OK;
    FILE *file = fopen(path, "r");
    char line[4096];
    if (!file) return NODRIVER;
    last = now;
    ngpu = nfail = 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = 0;
        if (!strncmp(line, "driver ", 7)) snprintf(driver, sizeof driver, "%.79s", line + 7);
        else if (!strncmp(line, "gpu ", 4) && ngpu < 16) parse_gpu(&gpus[ngpu++], line);
        else if (!strncmp(line, "fail ", 5) && nfail < 64) {
            fail_t *f = &fails[nfail++];
            f->gpu = -1;
            sscanf(line + 5, "%63s %d %d", f->function, &f->code, &f->gpu);
        }
    }
    fclose(file);
    return OK;
}

static int failing(const char *function, int gpu) {
    for (int i = 0; i < nfail; i++)
        if ((!strcmp(fails[i].function, function) || (!strcmp(fails[i].function, "*") && gpu >= 0))
            && (fails[i].gpu < 0 || fails[i].gpu == gpu)) return fails[i].code;
    return OK;
}

#define ENTER(gpu) { int r; if (!ready) return UNINIT; if ((r = load()) || (r = failing(__func__, gpu))) return r; }
#define DEVICE gpu_t *g = device; if (g < gpus || g >= gpus + 16) return INVAL; ENTER((int)(g - gpus))
static int put(char *to, unsigned size, const char *text) { if (strlen(text) + 1 > size) return SMALL; strcpy(to, text); return OK; }

int nvmlInitWithFlags(unsigned flags) { int r; (void)flags; last.st_ino = 0; if ((r = load()) || (r = failing("nvmlInit", -1))) return r; ready++; return OK; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { if (!ready) return UNINIT; ready--; nset = 0; return OK; }
const char *nvmlErrorString(int code) {
    switch (code) { case NOSUPPORT: return "Not Supported"; case 4: return "Insufficient Permissions"; case NODRIVER: return "Driver Not Loaded";
    case 15: return "GPU is lost"; case 18: return "Driver/library version mismatch"; default: return "Unknown Error"; } }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { ENTER(-1) return put(to, size, driver); }
int nvmlSystemGetProcessName(unsigned pid, char *to, unsigned size) {
    char path[64], name[256] = "";
    ENTER(-1)
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "r");
    if (!file) return NOTFOUND;
    if (!fgets(name, sizeof name, file)) name[0] = 0;
    fclose(file);
    return put(to, size, name);
}
int nvmlDeviceGetCount_v2(unsigned *count) { ENTER(-1) *count = ngpu; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned at, void **device) { ENTER((int)at) if (at >= (unsigned)ngpu) return INVAL; *device = &gpus[at]; return OK; }
int nvmlDeviceGetName(void *device, char *to, unsigned size) { DEVICE return put(to, size, g->name); }
int nvmlDeviceGetUUID(void *device, char *to, unsigned size) { DEVICE return put(to, size, g->uuid); }
int nvmlDeviceGetMemoryInfo(void *device, memory_t *m) { DEVICE m->total = g->v[TOTAL] << 20; m->used = (g->v[USED] + g->v[RESERVED]) << 20; m->free = m->total - m->used; return OK; }
int nvmlDeviceGetMemoryInfo_v2(void *device, memory2_t *m) {
    DEVICE if (m->version != (sizeof(memory2_t) | 2u << 24)) return 25;
    m->total = g->v[TOTAL] << 20; m->used = g->v[USED] << 20; m->reserved = g->v[RESERVED] << 20; m->free = m->total - m->used - m->reserved; return OK; }
int nvmlDeviceGetUtilizationRates(void *device, rates_t *r) { DEVICE r->gpu = g->v[GPU]; r->memory = g->v[MEM]; return OK; }
int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz) { DEVICE *mhz = which == 1 ? g->v[SM] : g->v[MCLK]; return OK; }
int nvmlDeviceGetMaxClockInfo(void *device, int which, unsigned *mhz) { DEVICE *mhz = which == 1 ? g->v[MAXSM] : g->v[MAXMCLK]; return OK; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *t) { DEVICE (void)sensor; *t = g->v[TEMP]; return OK; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *mw) { DEVICE *mw = g->v[POWER]; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw) { DEVICE *mw = g->v[LIMIT]; return OK; }
int nvmlDeviceGetCurrentClocksEventReasons(void *device, u64 *bits) { DEVICE *bits = g->v[REASONS]; return OK; }
int nvmlDeviceGetViolationStatus(void *device, int policy, violation_t *v) { DEVICE v->reference = clock_us; v->violation = policy == 1 ? g->v[THERMAL] : g->v[POWERVIOL]; return OK; }
int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, u64 *n) { DEVICE (void)counter; *n = kind ? g->v[UNCORRECTED] : g->v[CORRECTED]; return OK; }
int nvmlDeviceGetRemappedRows(void *device, unsigned *c, unsigned *u, unsigned *pending, unsigned *failed) { DEVICE *c = 0; *u = g->v[ROWS]; *pending = g->v[ROWS] > 0; *failed = 0; return OK; }
int nvmlDeviceGetRetiredPages(void *device, int cause, unsigned *n, u64 *pages) {
    DEVICE (void)cause; unsigned have = g->v[PAGES], room = *n; *n = have;
    if (have > room) return SMALL;
    for (unsigned i = 0; i < have; i++) pages[i] = 4096 * i;
    return OK; }
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) { DEVICE *current = *pending = g->v[MIG] > 0; return OK; }
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *n) { DEVICE *n = g->v[MIG] ? 7 : 0; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned at, void **part) { DEVICE if (at >= g->v[MIG]) return NOTFOUND; *part = g; return OK; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, process_t *out) {
    DEVICE
    char copy[1024], *save, *word; unsigned have = 0;
    snprintf(copy, sizeof copy, "%s", g->procs);
    for (char *c = copy; *c; c++) have += *c == ':';
    have /= 2;
    if (*n < have) { *n = have; return SMALL; }
    *n = have; have = 0;
    for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        unsigned pid, sm; u64 mib;
        if (sscanf(word, "%u:%llu:%u", &pid, &mib, &sm) == 3) out[have++] = (process_t){ pid, mib << 20, ~0u, ~0u };
    }
    return OK; }
int nvmlDeviceGetProcessUtilization(void *device, share_t *out, unsigned *n, u64 since) {
    DEVICE (void)since;
    char copy[1024], *save, *word; unsigned have = 0;
    snprintf(copy, sizeof copy, "%s", g->procs);
    for (char *c = copy; *c; c++) have += *c == ':';
    have /= 2;
    if (!have) return NOTFOUND;
    if (!out || *n < have) { *n = have; return SMALL; }
    *n = have; have = 0;
    for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        unsigned pid, sm; u64 mib;
        if (sscanf(word, "%u:%llu:%u", &pid, &mib, &sm) == 3) out[have++] = (share_t){ pid, clock_us, sm, 0, 0, 0 };
    }
    return OK; }
int nvmlEventSetCreate(void **set) { ENTER(-1) sets[nset] = (struct set){ -1, 0 }; *set = &sets[nset++ % 16]; return OK; }
int nvmlDeviceRegisterEvents(void *device, u64 types, void *set) { DEVICE (void)types; ((struct set *)set)->gpu = g - gpus; return OK; }
int nvmlEventSetFree(void *set) { (void)set; return OK; }
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned ms) {
    struct set *s = set; (void)ms;
    ENTER(s->gpu)
    gpu_t *g = &gpus[s->gpu];
    if (g->v[XID] == s->told) return TIMEOUT;
    s->told = g->v[XID];
    *event = (event_t){ g, 8, g->v[XID], ~0u, ~0u };
    return OK; }
