package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/workload"
)

var etcdSystem = onEtcd("etcd", "one member, which syncs to the disk", "")

var etcdInMemory = onEtcd("etcd in memory", "one member, whose files lie in memory", rig.MemoryDir)

func onEtcd(name, server, dir string) *System {
	return &System{
		Name:    name,
		Module:  "go.etcd.io/etcd/client/v3",
		Version: etcdVersion,
		Settings: "concurrency.Mutex; a session for each goroutine, since those that share one have the lock together; 60 s, kept alive; " +
			server,
		Sends:  []string{"Txn", "Range", "Put", "DeleteRange", "Watch", "LeaseGrant", "LeaseRevoke", "LeaseKeepAlive"},
		Server: func(pin bool) (rig.Server, error) { return rig.StartEtcd(dir, pin) },
		Open:   openEtcd,
		Available: func() error {
			if _, err := exec.LookPath(rig.EtcdProgram); err != nil {
				return errors.New("there is no etcd in PATH")
			}
			if _, err := os.Stat(dir); dir != "" && err != nil {
				return fmt.Errorf("no files can lie in memory: %w", err)
			}
			return nil
		},
	}
}

// etcdVersion returns the version of the server.
func etcdVersion() string {
	text, err := exec.Command(rig.EtcdProgram, "--version").Output()
	if err != nil {
		return rig.EtcdProgram
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return first
}

func openEtcd(ctx context.Context, addr string) (workload.Locker, func(), error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{addr}, DialTimeout: 10 * time.Second, Context: context.WithoutCancel(ctx),
	})
	if err != nil {
		return nil, nil, err
	}
	return etcdLocker{client}, func() { _ = client.Close() }, nil // its process ends anyway
}

// etcdLocker creates owners of locks.
type etcdLocker struct{ client *clientv3.Client }

func (l etcdLocker) Lock(ctx context.Context, key string) (workload.Hold, error) {
	return l.Of(key).Lock(ctx, key)
}

// Of implements [workload.Namer].
func (l etcdLocker) Of(string) workload.Locker { return &etcdOwner{client: l.client} }

// etcdOwner is one owner of locks, and its hold.
type etcdOwner struct {
	client *clientv3.Client
	mutex  *concurrency.Mutex // nil before the first lock
}

func (o *etcdOwner) Lock(ctx context.Context, key string) (workload.Hold, error) {
	if o.mutex == nil {
		session, err := concurrency.NewSession(o.client)
		if err != nil {
			return nil, err
		}
		o.mutex = concurrency.NewMutex(session, key)
	}
	return o, o.mutex.Lock(ctx)
}

func (o *etcdOwner) Unlock() error { return o.mutex.Unlock(context.Background()) }
