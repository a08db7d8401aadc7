package rueidis

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/scan"
)

const slotCount = 16384

// slotsAge is the age at which the map of slots is read again, and slotsPause the least time
// between two reads.
const (
	slotsAge   = 5 * time.Second
	slotsPause = 200 * time.Millisecond
	// slotsMoment replaces slotsPause when a master cannot be reached.
	slotsMoment = 50 * time.Millisecond
	// slotsWait is how long the reply of one node is waited for.
	slotsWait = 2 * time.Second
)

// slots is the map from slots to masters. The client has one too, but does not expose it. While in
// use, it is read again in the background.
type slots struct {
	driver  *Driver
	current atomic.Pointer[slotMap]
	doubted atomic.Bool
	reading atomic.Bool
	refused atomic.Bool  // the servers do not allow the user to read the map
	read    atomic.Int64 // when the last read ended, with or without success, in ns since started
}

var started = time.Now()

// slotMap is immutable.
type slotMap struct {
	addrs []string         // of masters
	owner [slotCount]int16 // index into addrs, -1 for none
}

// owner returns the address of the master of slot, empty if it is not known.
func (s *slots) owner(slot int) string {
	if m := s.current.Load(); m != nil && m.owner[slot] >= 0 {
		return m.addrs[m.owner[slot]]
	}
	return ""
}

// awaited reports whether there is no map yet, but may soon be one.
func (s *slots) awaited() bool { return s.current.Load() == nil && !s.refused.Load() }

// masters returns the addresses of all masters.
func (s *slots) masters() []string {
	if m := s.current.Load(); m != nil {
		return m.addrs
	}
	return nil
}

// doubt makes the next use read the map again.
func (s *slots) doubt() { s.doubted.Store(true) }

// touch starts to read the map again if it is old or in doubt. It does not wait.
func (s *slots) touch() {
	age := time.Since(started) - time.Duration(s.read.Load())
	fresh := s.current.Load() != nil && age < slotsAge && !s.doubted.Load()
	if fresh || (age < slotsPause && s.read.Load() != 0) || !s.reading.CompareAndSwap(false, true) {
		return
	}
	if !s.driver.enter() {
		return
	}
	go func() {
		defer s.driver.running.Done()
		defer s.reading.Store(false)
		_ = s.refresh(context.Background()) // the next touch tries again
	}()
}

// renew reads the map again, unless a read is in progress, or ended a moment ago.
func (s *slots) renew(ctx context.Context) {
	if time.Since(started)-time.Duration(s.read.Load()) < slotsMoment || !s.reading.CompareAndSwap(false, true) {
		return
	}
	defer s.reading.Store(false)
	_ = s.refresh(ctx) // if no node replies, the old map stays in use
}

// refresh reads the map from the first node that replies.
func (s *slots) refresh(ctx context.Context) error {
	s.doubted.Store(false)
	defer func() { s.read.Store(int64(time.Since(started))) }()
	nodes := s.driver.client.Nodes()
	m, err := scan.First(ctx, slices.Collect(maps.Keys(nodes)), func(ctx context.Context, addr string) (*slotMap, error) {
		ctx, cancel := context.WithTimeout(ctx, slotsWait)
		defer cancel()
		msg, err := s.driver.do(ctx, nodes[addr], nodes[addr].B().ClusterSlots().Build())
		if err != nil {
			return nil, err
		}
		m := parseSlots(&msg, addr)
		if len(m.addrs) == 0 {
			err = &driver.Error{Class: driver.Passing, Err: redis.ErrNoSlot}
		}
		return m, err
	})
	if err == nil {
		s.current.Store(m)
		return nil
	}
	if ctx.Err() == nil {
		s.refused.Store(driver.ClassOf(err) == driver.Denied || driver.ClassOf(err) == driver.Other)
	}
	return err
}

// parseSlots parses a reply of CLUSTER SLOTS. A node that does not know its own host leaves it out:
// it is the node that was asked.
func parseSlots(msg *redis.RedisMessage, asked string) *slotMap {
	m := &slotMap{}
	for i := range m.owner {
		m.owner[i] = -1
	}
	ranges, _ := msg.ToArray()
	for _, r := range ranges {
		fields, _ := r.ToArray()
		if len(fields) < 3 {
			continue
		}
		first, err1 := fields[0].ToInt64()
		last, err2 := fields[1].ToInt64()
		master, err3 := fields[2].ToArray()
		if err1 != nil || err2 != nil || err3 != nil || len(master) < 2 || first < 0 || last >= slotCount {
			continue
		}
		host, _ := master[0].ToString()
		port, _ := master[1].ToInt64()
		if host == "?" {
			continue
		}
		addr := fullAddr(net.JoinHostPort(host, strconv.FormatInt(port, 10)), asked)
		index := slices.Index(m.addrs, addr)
		if index < 0 {
			index = len(m.addrs)
			m.addrs = append(m.addrs, addr)
		}
		for slot := first; slot <= last; slot++ {
			m.owner[slot] = int16(index)
		}
	}
	return m
}

// fullAddr completes an address without a host by that of the node that sent it.
func fullAddr(addr, asked string) string {
	host, port, err := net.SplitHostPort(addr)
	if err == nil && host == "" {
		if host, _, err = net.SplitHostPort(asked); err == nil {
			return net.JoinHostPort(host, port)
		}
	}
	return addr
}

// slotOf returns the cluster slot of a key: the CRC-16 of its hash tag if it has one, else of the
// whole key.
func slotOf(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if tag, _, ok := strings.Cut(key[open+1:], "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return int(crc % slotCount)
}

// crcTable is the table for Redis' CRC-16: polynomial 0x1021, not reflected.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
