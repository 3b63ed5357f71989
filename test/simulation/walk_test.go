// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
)

// walk makes random steps: something happens, then some time passes. The rules are checked
// after both.
func (c *cluster) walk(steps int) {
	rough := c.chance(50)
	c.twinsLeft = mostTwins
	defer func() { c.twinsLeft = 0 }()
	for range steps {
		if rough && c.chance(10) {
			c.trouble()
		} else {
			c.event()
		}
		c.pass()
	}
}

// pass lets some time pass, and checks the rules at its end.
func (c *cluster) pass() {
	var d time.Duration
	switch n := c.random.IntN(100); {
	case n < 30:
		d = time.Duration(1+c.random.IntN(500)) * time.Millisecond
	case n < 65:
		d = time.Duration(1000+c.random.IntN(2500)) * time.Millisecond
	case n < 90:
		d = time.Duration(5+c.random.IntN(60)) * time.Second
	default:
		d = time.Duration(1+c.random.IntN(12)) * time.Minute
	}
	c.sleep(d)
}

// sleep lets time pass, and checks the rules every minute and at its end. That also finds reactions that were
// late in between. Another process follows a process that dies.
func (c *cluster) sleep(d time.Duration) {
	const pause = 20 * time.Second
	for end, pauses := time.Now().Add(d), 1; ; pauses++ {
		rest := time.Until(end)
		c.pause(min(rest, pause))
		if c.machines != nil {
			c.machines.reconcile()
		}
		c.elect()
		if last := rest <= pause; last || pauses%3 == 0 {
			c.check()
			if last {
				return
			}
		}
	}
}

// pause lets some seconds pass. A twin looks at what ends meanwhile.
func (c *cluster) pause(d time.Duration) {
	for end := time.Now().Add(d); ; {
		step := time.Until(end)
		if c.twinsLeft > 0 {
			step = min(step, time.Second)
		}
		time.Sleep(step)
		synctest.Wait()
		if c.twinsLeft > 0 {
			c.compareAfterEnd()
		}
		if !time.Now().Before(end) {
			return
		}
	}
}

// idle lets a long time pass and checks the rules at its end.
func (c *cluster) idle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	c.elect()
	c.check()
}

// trouble is something that goes wrong between the controller and the API server.
func (c *cluster) trouble() {
	switch c.random.IntN(8) {
	case 7:
		if crs := c.crs(); len(crs) > 0 {
			c.replaceUnseen(oneOf(c, crs...))
		}
	case 6:
		if node := c.anyNode(); node != "" {
			c.recoverUnseen(node)
		}
	case 0:
		c.setFaults(oneOf(c, 0, 30, 150))
		c.log("of 1000 requests %d go wrong", c.faults)
	case 1, 2:
		c.delayWatches()
	case 3:
		c.endWatches()
	default:
		c.handOver()
		c.elect()
	}
}

// anyNode returns the name of a Node, empty if there is none.
func (c *cluster) anyNode() string {
	if names := c.nodeNames(); len(names) > 0 {
		return oneOf(c, names...)
	}
	return ""
}

// anyNHC returns the name of a NodeHealthCheck, empty if there is none.
func (c *cluster) anyNHC() string {
	if names := c.nhcNames(); len(names) > 0 {
		return oneOf(c, names...)
	}
	return ""
}

// event is something that others do.
func (c *cluster) event() {
	if c.machines != nil && c.chance(35) {
		c.machines.event()
		return
	}
	if c.budgeted && c.chance(8) {
		c.budgetEvent()
		return
	}
	switch n := c.random.IntN(100); {
	case n < 35:
		if crs := c.crs(); len(crs) > 0 {
			cr := oneOf(c, crs...)
			r := c.of(cr)
			r.move(c, r, cr)
		}
	case n < 78:
		if node := c.anyNode(); node != "" {
			c.nodeEvent(node, c.random.IntN(43))
		}
	case n < 82:
		c.createNode(oneOf(c, "master-0", "worker-0", "worker-1", "worker-2", "worker-3"), oneOf(c, corev1.ConditionTrue, corev1.ConditionUnknown, ""))
	case n < 86:
		c.crEvent()
	case n < 88:
		c.collectGarbage()
	case n < 91:
		c.kindEvent()
	default:
		if nhc := c.anyNHC(); nhc != "" {
			c.nhcEvent(nhc)
		}
	}
}

// nodeEvent is something that happens to a node.
func (c *cluster) nodeEvent(node string, n int) {
	set := func(field, key, value string) {
		c.changeNode(node, func(object *unstructured.Unstructured) { setEntry(object, field, key, value) })
	}
	switch {
	case n < 24:
		c.setReady(node, oneOf(c, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown, corev1.ConditionUnknown))
		if c.chance(25) {
			c.misreport(node)
		}
	case n < 26:
		c.changeNode(node, func(object *unstructured.Unstructured) { setCondition(object, diskPressure, oneOf(c, "True", "False")) })
	case n < 29:
		c.deleteNode(node)
	case n < 33:
		c.maintain(node)
	case n < 34:
		c.updateConfig(node)
	case n < 35:
		c.spoil(node)
	case n < 37:
		set("labels", v1alpha1.LabelExclude, oneOf(c, "true", "true", "", "false"))
	case n < 39:
		if c.budgeted && c.chance(50) {
			set("labels", zoneKey, oneOf(c, "a", "b"))
			return
		}
		set("labels", "pool", oneOf(c, "a", "a", "b"))
	case n < 41:
		set("annotations", v1alpha1.AnnotationManuallyConfirmedHealthy, "")
	default:
		c.createForeign(node, c.anyNHC())
	}
}

// crEvent is something that users do to a CR.
func (c *cluster) crEvent() {
	crs := c.crs()
	if len(crs) == 0 {
		return
	}
	cr := oneOf(c, crs...)
	if c.chance(30) {
		c.letGo(cr)
		return
	}
	c.log("somebody deletes %s", cr)
	c.server.Delete("somebody", c.of(cr).crs(), keyOf(cr))
}

// kindEvent is something that happens to a kind or its templates.
func (c *cluster) kindEvent() {
	r := &c.kinds[c.random.IntN(len(c.kinds))]
	name := oneOf(c, r.templated...)
	key := memapi.Key{Namespace: templateNamespace, Name: name}
	switch n := c.random.IntN(10); {
	case n < 3:
		c.log("template %s goes", name)
		c.server.Delete("admin", r.templates(), key)
	case n < 8:
		for i := range c.kinds {
			c.kinds[i].install(c)
		}
	default:
		annotation := "patch " + r.crs().Resource
		c.deny(annotation, !c.denied[annotation])
	}
}

// nhcEvent is something that users do to a NodeHealthCheck.
func (c *cluster) nhcEvent(name string) {
	switch n := c.random.IntN(20); {
	case n < 2:
		c.log("the status of %s is lost", name)
		c.server.Modify("somebody", nhcs, memapi.Key{Name: name}, func(object *unstructured.Unstructured) { delete(object.Object, "status") })
	case n < 3:
		c.deleteNHC(name)
	case n < 4:
		c.refuseStatus()
	case n < 5:
		c.createNHC(oneOf(c, "blue", "green", "red"))
	default:
		c.changeRandomly(name)
	}
}
