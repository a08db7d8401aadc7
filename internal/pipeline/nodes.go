package pipeline

import "sync"

// NoNode stands for a node in [Nodes.To], for calls that any node can serve. It is no address.
const NoNode = "any"

// Nodes are the pipelines of a driver, one for each node. Its methods are safe for concurrent use.
type Nodes[T any] struct {
	config Config[T]

	mu        sync.RWMutex // guards the fields below
	pipelines map[string]*Pipeline[T]
	closed    bool
}

// NewNodes returns the pipelines of a driver, none at first.
func NewNodes[T any](config Config[T]) *Nodes[T] {
	return &Nodes[T]{config: config, pipelines: make(map[string]*Pipeline[T])}
}

// To returns the pipeline to a node. After Close it is a closed one.
func (n *Nodes[T]) To(node string) *Pipeline[T] {
	n.mu.RLock()
	p := n.pipelines[node]
	n.mu.RUnlock()
	if p != nil {
		return p
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p = n.pipelines[node]; p == nil {
		p = New(&n.config)
		if n.closed {
			p.Close()
		}
		n.pipelines[node] = p
	}
	return p
}

// Close closes all pipelines.
func (n *Nodes[T]) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, p := range n.pipelines {
		p.Close()
	}
}
